import { scheduleFrom } from '#core/automation/schedules/items.ts';
import { type OpenScheduleRun, openRunFrom } from '#core/automation/schedules/runs/open-runs.ts';
import type { Schedule } from '#core/automation/schedules/schedule.ts';
import type { Item, Table, TransactOperation } from '#core/ports/table.ts';
import { Timetable } from './timetable.ts';

const WINDOW_MS = 5 * 60_000;

interface RecordedRun {
  readonly id: string;
  readonly status: string;
  readonly hasEnded: boolean;
  readonly errorCode?: string | undefined;
}

/** Effect of a transaction on one schedule. */
interface Commit {
  readonly before: Schedule | undefined;
  readonly after: Schedule;
  readonly begun: OpenScheduleRun | undefined;
  /** Id of a run. */
  readonly counted: string | undefined;
  readonly alerts: number;
  readonly events: readonly { readonly event_type: string; readonly message: string }[];
  /** Time of the request. */
  readonly at: number;
}

/**
 * Checks every write against the guarantees of schedules: each scheduled minute is handled once, in order and according
 * to its lateness; each run starts once, and is counted once after its end, with its outcome.
 */
export class Ledger {
  readonly problems: string[] = [];
  readonly schedules = new Map<string, Schedule>();
  /** By id. */
  readonly runs = new Map<string, RecordedRun>();
  /** Runs that a schedule started, by id. */
  readonly begun = new Map<string, OpenScheduleRun>();
  /** Runs that waited too long for a slot; they have no record. */
  readonly missed = new Set<string>();
  readonly counted = new Set<string>();
  /** Outcome of each minute, by `<schedule> <minute>`. */
  readonly minutes = new Map<string, string>();
  /** Number of due alerts, and of those whose outcome is in a timeline. */
  readonly alerts = { due: 0, concluded: 0 };
  /** Index partitions that ever had items. */
  readonly #indexed = new Set<string>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Whether every started run has ended. */
  get isQuiet(): boolean {
    return this.counted.size === this.begun.size && this.alerts.concluded === this.alerts.due;
  }

  /** Returns a table that reports its writes to this ledger. */
  watched(table: Table): Table {
    const see = (operations: readonly TransactOperation[], at: number) => {
      try {
        this.#see(operations, at);
      } catch (error) {
        this.problems.push(String((error as Error).stack));
      }
    };
    return {
      get: (key) => table.get(key),
      batchGet: (keys) => table.batchGet(keys),
      // Queries of empty partitions are skipped, because they would take most of a simulation's time.
      query: async (query) => (query.index && !this.#indexed.has(query.pk) ? { items: [] } : table.query(query)),
      delete: (key, condition) => table.delete(key, condition),
      put: async (item, condition) => {
        const at = this.#now();
        const result = await table.put(item, condition);
        if (result.ok) see([{ op: 'put', item }], at);
        return result;
      },
      update: async (key, changes, condition) => {
        const at = this.#now();
        const result = await table.update(key, changes, condition);
        if (result.ok) see([{ op: 'update', key, changes }], at);
        return result;
      },
      transact: async (operations) => {
        const at = this.#now();
        const result = await table.transact(operations);
        if (result.ok) see(operations, at);
        return result;
      },
    };
  }

  #see(operations: readonly TransactOperation[], at: number): void {
    for (const operation of operations) {
      const { gsi1pk, gsi2pk } = writtenBy(operation);
      if (gsi1pk) this.#indexed.add(gsi1pk);
      if (gsi2pk) this.#indexed.add(gsi2pk);
      this.#seeRun(operation);
    }
    const items = operations.flatMap((operation) => (operation.op === 'put' ? [operation.item] : []));
    const item = items.find(({ pk, sk }) => pk.endsWith('#SCHEDULES') && sk !== 'COUNT');
    const deleted = operations.find(({ op }, i) => op === 'delete' && keyOf(operations[i]!).sk.startsWith('RUN#'));
    const counted = deleted && dashed(keyOf(deleted).sk.slice('RUN#'.length));
    // A success may be counted without a write of its schedule.
    const after = item ? scheduleFrom(item) : this.schedules.get(deleted ? scheduleIdOf(keyOf(deleted).pk) : '');
    if (after === undefined) return;
    const begun = items.find(({ sk }) => sk.startsWith('RUN#'));
    this.#check({
      before: this.schedules.get(after.id),
      after,
      begun: begun && openRunFrom(begun),
      counted,
      alerts: items.filter(({ pk }) => pk.startsWith('DELIVERY#')).length,
      events: items.filter(({ sk }) => sk.startsWith('EVENT#')) as never,
      at,
    });
    this.schedules.set(after.id, after);
  }

  #seeRun(operation: TransactOperation): void {
    if (operation.op === 'put' && isRunHead(operation.item)) {
      const id = dashed(operation.item.sk);
      this.#expect(!this.runs.has(id), `run ${id} was recorded twice`);
      this.runs.set(id, { id, status: 'running', hasEnded: false });
    }
    const { status, error_code: errorCode } = operation.op === 'update' ? (operation.changes.set ?? {}) : {};
    const run = status === undefined ? undefined : this.runs.get(dashed(keyOf(operation).sk));
    if (run === undefined) return;
    this.#expect(!run.hasEnded, `run ${run.id} ended twice`);
    Object.assign(run, { status, errorCode, hasEnded: true });
  }

  #check(commit: Commit): void {
    const { before, after, begun, counted } = commit;
    const { id, enabled } = after;
    this.#expect(after.deletedAt === null || !enabled, `${id}: deleted and enabled`);
    const isTimed = enabled && after.cronExpression !== null;
    const isLost = before?.enabled === true && before.nextRunAt === null;
    this.#expect(
      isLost || isTimed === (after.nextRunAt !== null),
      `${id}: enabled ${enabled}, next run ${after.nextRunAt}`,
    );
    if (before === undefined || before.deletedAt !== null) this.#expect(begun === undefined, `${id}: run of nothing`);
    this.#checkTime(commit);
    this.#checkCounts(commit);
    this.#checkEnding(commit);
    if (begun) {
      this.#expect(!this.begun.has(begun.runId), `${id}: run ${begun.runId} was begun twice`);
      this.begun.set(begun.runId, begun);
    }
    if (counted) this.#checkEnd(commit, counted);
    else this.#expect(commit.alerts === 0, `${id}: an alert without a failure`);
    this.alerts.due += commit.alerts;
    this.alerts.concluded += commit.events.filter(({ event_type }) => event_type.startsWith('alert_')).length;
  }

  #checkTime({ before, after, begun, events, at }: Commit): void {
    const { id, cronExpression: expression, timezone } = after;
    if (expression === null || !after.enabled || after.nextRunAt === before?.nextRunAt) return;
    const timetable = Timetable.of(expression, timezone);
    const next = Date.parse(after.nextRunAt ?? '');
    // A cron without another minute until its end is disabled.
    this.#expect(after.endsAt == null || after.nextRunAt! <= after.endsAt, `${id}: next run after ${after.endsAt}`);
    const isSame = before?.enabled && before.cronExpression === expression && before.timezone === timezone;
    if (!isSame || before.nextRunAt === null) {
      const expected = timetable.next(at);
      // A stalled process may have read the clock earlier.
      const isRight = next === expected || (next <= at && timetable.names(next));
      // After the clock was set back, a change of the schedule may repeat handled minutes.
      this.#forget(id, next);
      this.#expect(isRight, `${id}: next run at ${after.nextRunAt}, not ${new Date(expected).toISOString()}`);
      return;
    }
    const first = Date.parse(before.nextRunAt);
    const minutes = timetable.between(first, next);
    const newest = minutes.at(-1);
    const what = `${id} ${expression} ${timezone}: ${before.nextRunAt} -> ${after.nextRunAt} at ${new Date(at).toISOString()}`;
    if (newest === undefined || minutes[0] !== first || !timetable.names(next)) {
      this.#expect(false, `${what}: wrong minutes`);
      return;
    }
    const texts = events.map(({ message }) => message);
    const isSkipped = texts.some((text) => text.includes(`run of ${new Date(newest).toISOString()} was skipped`));
    const isBegun = begun?.scheduledFor === newest;
    const missed = isBegun || isSkipped ? minutes.slice(0, -1) : minutes;
    if (!isBegun && !isSkipped) this.#expect(at - newest > WINDOW_MS, `${what}: missed too early`);
    if (begun) this.#expect(isBegun, `${what}: began ${begun.scheduledFor}`);
    if (isSkipped || isBegun) {
      const mustSkip = before.overlap === 'skip' && this.#openRuns(id) > 0;
      this.#expect(mustSkip === isSkipped, `${what}: skipped ${isSkipped}, with ${this.#openRuns(id)} open runs`);
    }
    this.#expect(missedBy(texts, missed), `${what}: should have missed ${missed.length}, but: ${texts.join(' ')}`);
    for (const minute of minutes) {
      const name = `${id} ${minute}`;
      this.#expect(!this.minutes.has(name), `${what}: minute ${minute} came again, was ${this.minutes.get(name)}`);
      this.minutes.set(name, minute !== newest || missed === minutes ? 'missed' : isBegun ? 'run' : 'skipped');
    }
  }

  #openRuns(scheduleId: string): number {
    const open = (run: OpenScheduleRun): boolean => run.scheduleId === scheduleId && !this.counted.has(run.runId);
    return [...this.begun.values()].filter(open).length;
  }

  #forget(id: string, from: number): void {
    for (const name of this.minutes.keys()) {
      const [of, minute] = name.split(' ');
      if (of === id && Number(minute) >= from) this.minutes.delete(name);
    }
  }

  #checkCounts({ before, after, begun, counted, events }: Commit): void {
    const runs = (before?.runCount ?? 0) + (begun ? 1 : 0) - (isMissed(events, counted) ? 1 : 0);
    this.#expect(after.runCount === runs, `${after.id}: ${after.runCount} runs, not ${runs}`);
  }

  #checkEnding({ before, after, begun, events }: Commit): void {
    const { id, enabled, endsAt, maxRuns, endedReason } = after;
    const isOver = maxRuns != null && after.runCount >= maxRuns;
    this.#expect(!(enabled && isOver), `${id}: enabled after ${after.runCount} of ${maxRuns} runs`);
    this.#expect(!enabled || !endedReason, `${id}: enabled and ended`);
    const hasEnded = before?.enabled === true && !enabled && endedReason != null;
    const isNoted = events.some(({ event_type }) => event_type === 'ended');
    this.#expect(hasEnded === isNoted || before?.enabled === false, `${id}: ended ${hasEnded}, noted ${isNoted}`);
    if (!begun || begun.source === 'manual') return;
    this.#expect(before?.enabled === true, `${id}: a disabled schedule began a run`);
    const hadRoom = maxRuns == null || before!.runCount < maxRuns;
    this.#expect(hadRoom, `${id}: run ${before!.runCount + 1} of ${maxRuns}`);
    const { scheduledFor } = begun;
    if (scheduledFor === undefined) return;
    const isInTime = endsAt == null || scheduledFor <= Date.parse(endsAt);
    this.#expect(isInTime, `${id}: a run for ${new Date(scheduledFor).toISOString()}, after ${endsAt}`);
    if (!hasEnded) return;
    const name = `${id} ${scheduledFor}`;
    this.#expect(!this.minutes.has(name), `${id}: minute ${scheduledFor} came again`);
    this.minutes.set(name, 'run');
  }

  #checkEnd({ before, after, events, alerts, at }: Commit, runId: string): void {
    const run = this.runs.get(runId);
    this.#expect(this.begun.has(runId) && !this.counted.has(runId), `run ${runId} was counted twice`);
    this.counted.add(runId);
    if (isMissed(events, runId)) {
      this.#expect(run === undefined, `run ${runId} was recorded and missed`);
      this.missed.add(runId);
      const isReopened = before!.endedReason === 'max_runs' && after.runCount < (before!.maxRuns ?? 0);
      const isEnabled = before!.enabled || (isReopened && after.endedReason !== 'ends_at');
      this.#expect(alerts === 0 && after.enabled === isEnabled, `${after.id}: a missed run is no failure`);
      this.#expect(after.consecutiveFailures === before!.consecutiveFailures, `${after.id}: a missed run was counted`);
      return;
    }
    this.#expect(run?.hasEnded === true, `run ${runId} was counted before its end was recorded`);
    const isFailure = run?.status === 'failed' || run?.status === 'timeout';
    // A missing slot does not count as a failure.
    const isCounted = isFailure && run?.errorCode !== 'RATE_LIMITED';
    const failures = isFailure ? before!.consecutiveFailures + 1 : 0;
    const expected = run?.status === 'cancelled' || isFailure !== isCounted ? before!.consecutiveFailures : failures;
    const is = `${after.consecutiveFailures} failures after a run that ${run?.status}`;
    this.#expect(after.consecutiveFailures === expected, `${after.id}: ${is}, ${expected} expected`);
    const mustEnd = before!.enabled && isCounted && failures >= before!.maxConsecutiveFailures;
    const kinds = events.map(({ event_type }) => event_type);
    // Any change ends a webhook whose time is over.
    const isOver = after.type === 'webhook' && after.endsAt != null && Date.parse(after.endsAt) < at;
    const hasEnded = isOver && kinds.includes('ended');
    const isEnabled = before!.enabled && !mustEnd && !hasEnded;
    this.#expect(after.enabled === isEnabled, `${after.id}: enabled ${after.enabled} after ${is}`);
    this.#expect(kinds.includes('run_failed') === isFailure, `${after.id}: ${kinds.join()} after ${is}`);
    this.#expect(kinds.includes('auto_disabled') === mustEnd, `${after.id}: ${kinds.join()} after ${is}`);
    const isReported = isCounted && after.deletedAt === null && (mustEnd || failures === before!.alertOnFailureCount);
    const due = isReported && after.alertWebhookUrl !== null;
    this.#expect(alerts === Number(due), `${after.id}: ${alerts} alerts with ${is}`);
  }

  #expect(holds: boolean, problem: string): void {
    if (!holds) this.problems.push(problem);
  }
}

/** Returns whether an ended run never started, because it waited too long for a slot. */
const isMissed = (events: Commit['events'], counted: string | undefined): boolean =>
  counted !== undefined && events.some(({ event_type }) => event_type === 'missed');

/** Returns whether the timeline shows exactly these minutes as missed. */
function missedBy(texts: readonly string[], missed: readonly number[]): boolean {
  const text = texts.find((each) => each.includes('missed'));
  const [first, last] = [missed[0], missed.at(-1)].map((time) => new Date(time ?? 0).toISOString());
  if (missed.length === 0) return text === undefined;
  if (missed.length === 1) return text === `The run of ${first} was missed.`;
  const count = missed.length > 1000 ? 'More than 1000' : missed.length;
  return text === `${count} runs were missed, from ${first} to ${last}.`;
}

function writtenBy(operation: TransactOperation): Partial<Item> {
  if (operation.op === 'put') return operation.item;
  return operation.op === 'update' ? ((operation.changes.set ?? {}) as Partial<Item>) : {};
}

const keyOf = (operation: TransactOperation) => (operation.op === 'put' ? operation.item : operation.key);
const scheduleIdOf = (pk: string): string => pk.slice('SCHEDULE#'.length);
const isRunHead = ({ pk, status }: Item): boolean => /#RUN#.$/.test(pk) && status === 'running';
const dashed = (hex: string): string => hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
