import { setImmediate } from 'node:timers/promises';
import { followsVersions } from '#core/automation/schedules/changes/follow-versions.ts';
import { scheduleHandlers } from '#core/automation/schedules/handlers.ts';
import { withLastStatus } from '#core/automation/schedules/runs/last-run.ts';
import { listOpenScheduleRuns } from '#core/automation/schedules/runs/open-runs.ts';
import type { Schedule } from '#core/automation/schedules/schedule.ts';
import { ScheduleStore } from '#core/automation/schedules/store.ts';
import { endOf } from '#core/automation/schedules/timing/ending.ts';
import { triggerSchedule } from '#core/automation/schedules/trigger/trigger.ts';
import { viewOf } from '#core/automation/schedules/view.ts';
import { receiveWebhook, type WebhookAnswer } from '#core/automation/webhooks/receive.ts';
import { hasCode } from '#core/base/errors.ts';
import { isoTime } from '#core/ports/clock.ts';
import { queryAll } from '#core/ports/table.ts';
import { RunStore } from '#core/runs/store.ts';
import { usagePartition } from '#core/runs/usage/rollup.ts';
import { Random } from './random.ts';
import { Timetable } from './timetable.ts';
import { type Host, LocalHost, QueueHost, World, type WorldProps } from './world.ts';

const MINUTE_MS = 60_000;
const MENDED_MS = 3 * MINUTE_MS;
const QUIET_MS = 9 * MINUTE_MS;

/** Daylight saving changes, forward and back. */
const CHANGES = [
  { zone: 'Europe/Berlin', forward: '2035-03-25T01:00Z', back: '2035-10-28T01:00Z' },
  { zone: 'America/New_York', forward: '2035-03-11T07:00Z', back: '2035-11-04T06:00Z' },
  { zone: 'Australia/Lord_Howe', forward: '2035-10-06T15:30Z', back: '2035-03-31T15:00Z' },
] as const;

const CRONS = [
  '* * * * *',
  '*/2 * * * *',
  '*/5 * * * *',
  '*/10 1-3 * * *',
  '30 1 * * *',
  '45 1 * * *',
  '0 2 * * *',
  '15 2 * * *',
  '30 2 * * *',
  '0,30 1,2 * * *',
  '*/7 2 * * 0',
  '0 3 * * *',
  '*/20 2 1-31/2 * 0',
] as const;

/** Sender that delivers one event repeatedly. */
interface Sender {
  readonly scheduleId: string;
  /** Idempotency key; without one, each delivery counts as a new event. */
  readonly key: string | undefined;
  readonly marker: string;
  readonly runIds: string[];
  readonly answers: WebhookAnswer[];
}

export type Style = 'local' | 'queue';

/**
 * Modules that the code under test loads lazily. Loading takes real time, which the machine does not see: on a busy
 * computer the first run of a seed would continue without it and differ from the second.
 */
const LOADED_LATE = Promise.all([
  import('#core/manifest/json-schema/schema-validation.ts'),
  import('#core/models/file-limits.ts'),
  import('#core/execution/engines/direct-llm.ts'),
  import('#core/execution/input/check-files.ts'),
  import('#core/execution/input/prompt-input.ts'),
  import('standardwebhooks'),
]);

/** Simulates one life of a platform from its seed. Throws the problem with the seed. */
export async function simulate(style: Style, seed: number, props: Partial<WorldProps> = {}): Promise<string[]> {
  await LOADED_LATE;
  const random = new Random(seed);
  const { random: systemRandom } = Math;
  // The code under test uses random delays as well.
  Math.random = () => random.next();
  const change = random.pick(CHANGES);
  const at = Date.parse(random.pick([change.forward, change.back]));
  const world = await World.create({
    random,
    start: at - random.between(-5, 15) * MINUTE_MS + random.between(0, 59_999),
    concurrency: random.chance(0.15) ? 2 : 100,
    isLagging: style === 'queue',
    ...props,
  });
  try {
    await new Scenario(world, style, change.zone).play();
  } catch (error) {
    const { trace } = world.machine;
    const story = trace ? `\n${trace.join('\n')}` : '';
    throw new Error(`${style} seed ${seed}: ${(error as Error).message}${story}`, { cause: error });
  } finally {
    Math.random = systemRandom;
    // Queries are not scheduled by the machine: after a failure, started ones run to completion.
    await setImmediate();
    world.close();
  }
  return world.machine.trace ?? [];
}

class Scenario {
  readonly #world: World;
  readonly #random: Random;
  readonly #host: Host;
  readonly #zone: string;
  readonly #senders: Sender[] = [];
  readonly #scheduleIds: string[] = [];
  readonly #hooks = new Map<string, string>();
  #script: { readonly at: number; readonly happen: () => void }[] = [];
  #minute: number;
  /** Newest published version, as far as its publisher knows. */
  #version = 'v1';
  /** Schedules whose last change was not answered, so the client must repeat it. */
  readonly #unanswered = new Set<string>();
  /** Milliseconds by which clocks are set back. */
  #setBack = 0;

  constructor(world: World, style: Style, zone: string) {
    this.#world = world;
    this.#random = world.random;
    this.#zone = zone;
    this.#host = style === 'local' ? new LocalHost(world) : new QueueHost(world);
    this.#minute = Math.floor(world.machine.now() / MINUTE_MS);
  }

  async play(): Promise<void> {
    const { machine } = this.#world;
    const random = this.#random;
    await this.#setUp();
    const minutes = random.between(3, 11);
    this.#writeScript(minutes * MINUTE_MS);
    machine.weather = {
      crash: random.pick([0, 0.001, 0.005, 0.02]),
      hold: random.pick([0, 0.3, 0.7]),
      stall: random.pick([0, 0, 0.0005, 0.003]),
    };
    while (machine.elapsed < minutes * MINUTE_MS) await this.#step();

    this.#world.isKind = true;
    machine.weather = { crash: 0, hold: random.pick([0, 0.3]), stall: 0 };
    this.#script = [];
    this.#host.mend();
    // Some clocks stay wrong.
    if (this.#setBack > 0 && random.chance(0.5)) machine.jump(this.#putRight());
    // The period covers every sweep and lets open runs count as lost.
    const end = machine.elapsed + MENDED_MS;
    const last = machine.elapsed + QUIET_MS;
    while (machine.elapsed < end || (machine.elapsed < last && !this.#world.ledger.isQuiet)) await this.#step();
    await this.#deliverAgain();
    await this.#checkEnd();
  }

  async #setUp(): Promise<void> {
    const random = this.#random;
    const { createSchedule } = scheduleHandlers(this.#world.deps);
    const count = random.between(1, 3);
    for (let i = 0; i <= count; i++) {
      const body = {
        agent: 'acme/reporter',
        ...(i === 0
          ? { schedule_type: 'webhook' }
          : { cron_expression: random.pick(CRONS), timezone: this.#anyZone() }),
        input_data: { topic: random.pick(['fragile', 'fine']) },
        overlap: random.pick(['allow', 'skip']),
        max_consecutive_failures: random.between(1, 6),
        alert_on_failure_count: random.between(1, 4),
        ...(random.chance(0.7) && { alert_webhook_url: 'https://hooks.example.com/alerts' }),
        ...(random.chance(0.15) && { max_runs: random.between(1, 4) }),
      };
      const answer = await createSchedule({ caller: this.#world.caller, body } as never);
      const { id, webhook_url } = (answer as { body: { schedule: { id: string; webhook_url?: string } } }).body
        .schedule;
      this.#scheduleIds.push(id);
      if (webhook_url) this.#hooks.set(id, webhook_url.split('/').at(-1)!);
    }
  }

  #anyZone = (): string => (this.#random.chance(0.75) ? this.#zone : this.#random.pick(CHANGES).zone);

  #writeScript(length: number): void {
    const random = this.#random;
    const plan = (happen: () => void, at = random.between(0, length)) => this.#script.push({ at, happen });
    for (let i = random.between(1, 4); i > 0; i--) {
      const sender = this.#newSender(random.chance(0.8));
      const first = random.between(0, length);
      for (let again = random.between(1, 4); again > 0; again--) {
        const pause = random.pick([0, 0, 5, 4_000, 12_000, 70_000, 310_000]);
        plan(() => void this.#deliver(sender), first + pause);
      }
    }
    for (let i = random.between(0, 5); i > 0; i--) plan(() => void this.#edit(random.pick(this.#scheduleIds)));
    for (let i = random.between(0, 2); i > 0; i--) plan(() => void this.#publish());
    if (random.chance(0.3)) this.#planMeeting(random.pick(this.#scheduleIds), random.between(0, length));
    for (let i = random.between(0, 2); i > 0; i--) plan(() => void this.#trigger(random.pick(this.#scheduleIds)));
    if (random.chance(0.25)) plan(() => this.#host.breakDown(random.pick([5_000, 200_000, 400_000])));
    if (random.chance(0.2)) plan(() => void this.#loseNextRun(random.pick(this.#scheduleIds)));
    const host = this.#host;
    if (host instanceof QueueHost) {
      if (random.chance(0.2)) plan(() => host.loseTimer());
    } else {
      for (let i = random.pick([0, 0, 1, 2]); i > 0; i--) plan(() => this.#jump());
    }
  }

  /** Enables a schedule while a version of its agent is published. */
  #planMeeting(id: string, at: number): void {
    this.#script.push(
      { at, happen: () => void this.#edit(id, { enabled: false }) },
      { at: at + 5_000, happen: () => void this.#edit(id, { enabled: true }) },
      { at: at + 5_000, happen: () => void this.#publish() },
    );
  }

  /** Advances to the next event: a minute, a step of the script, or idle time. */
  async #step(): Promise<void> {
    const { machine, ledger } = this.#world;
    const random = this.#random;
    const toMinute = MINUTE_MS - (machine.now() % MINUTE_MS);
    const idle = random.chance(0.3) ? random.between(1, 40_000) : toMinute + random.between(0, 1_500);
    const next = Math.min(idle, ...this.#script.map(({ at }) => Math.max(0, at - machine.elapsed)));
    await machine.advance(next);
    const minute = Math.floor(machine.now() / MINUTE_MS);
    // Clock jumps do not affect external timers: skipped minutes do not begin.
    if (minute !== this.#minute) this.#host.minute(minute * MINUTE_MS);
    this.#minute = minute;
    const due = this.#script.filter(({ at }) => at <= machine.elapsed);
    this.#script = this.#script.filter(({ at }) => at > machine.elapsed);
    for (const { happen } of due) happen();
    await machine.settle();
    this.#fail(this.#host.check(), ...ledger.problems);
    await machine.settle();
  }

  #fail(...problems: (string | undefined)[]): void {
    const found = problems.filter((problem) => problem !== undefined);
    if (found.length > 0) throw new Error(found.join('\n'));
  }

  /** Sends a request; returns `undefined` if no process listens, the process dies, or the request is refused. */
  async #send<T>(what: string, work: (deps: World['deps']) => Promise<T>): Promise<T | undefined> {
    const place = this.#host.request();
    if (place === undefined) return undefined;
    this.#world.machine.note(`${place.process.name} gets: ${what}`);
    try {
      return await work(place.deps);
    } catch (error) {
      const isRefusal = ['NOT_FOUND', 'CONFLICT', 'FORBIDDEN', 'INVALID_INPUT'].some((code) => hasCode(error, code));
      this.#world.machine.note(`${what} refused: ${String(error)}`);
      if (!isRefusal && !/started by another process/.test(String(error))) {
        this.#world.ledger.problems.push(`${what}: ${(error as Error).stack}`);
      }
      return undefined;
    } finally {
      place.release();
    }
  }

  #newSender(isKeyed: boolean): Sender {
    const marker = `once-${this.#senders.length}`;
    const [scheduleId] = this.#hooks.keys();
    const key = isKeyed ? marker : undefined;
    const sender: Sender = { scheduleId: scheduleId!, key, marker, runIds: [], answers: [] };
    this.#senders.push(sender);
    return sender;
  }

  async #deliver(sender: Sender): Promise<boolean> {
    const runId = this.#world.random.uuid();
    const secret = this.#hooks.get(sender.scheduleId)!;
    sender.runIds.push(runId);
    const marker = sender.key ?? `${sender.marker}-${sender.runIds.length}`;
    const answer = await this.#send(`delivery ${marker}`, (deps) =>
      receiveWebhook(deps, {
        scheduleId: sender.scheduleId,
        secret,
        key: sender.key,
        request: new Request('http://platform.test/', { method: 'POST', body: JSON.stringify({ marker }) }),
        runId,
        receivedAt: deps.clock.now(),
      }),
    );
    if (answer) sender.answers.push(answer);
    return answer !== undefined;
  }

  async #edit(id: string, body: object | 'delete' = this.#anyEdit(id)): Promise<void> {
    const call = { caller: this.#world.caller, params: { schedule_id: id }, body };
    this.#unanswered.add(id);
    const isAnswered = await this.#send(`edit ${id} ${JSON.stringify(body)}`, async (deps) => {
      const handlers = scheduleHandlers(deps);
      await (body === 'delete' ? handlers.deleteSchedule(call as never) : handlers.updateSchedule(call as never));
      return true;
    });
    if (isAnswered) this.#unanswered.delete(id);
  }

  #anyEdit(id: string): object | 'delete' {
    const random = this.#random;
    const isHook = this.#hooks.has(id);
    return random.pick([
      { enabled: false },
      { enabled: true },
      { enabled: true },
      { overlap: random.pick(['allow', 'skip']) },
      { max_consecutive_failures: random.between(1, 6) },
      { auto_update: random.chance(0.5) },
      { max_runs: random.pick([null, 1, 2, 4, 8]) },
      { enabled: true, max_runs: null, ends_at: null },
      { ends_at: isoTime(this.#world.machine.now() + random.between(1, 400) * 1_000) },
      ...(isHook ? [] : [{ cron_expression: random.pick(CRONS) }, { timezone: this.#anyZone() }, 'delete' as const]),
    ]);
  }

  async #publish(): Promise<void> {
    await this.#send('publish', async (deps) => {
      const version = await this.#world.publish(deps);
      const name = `v${version.version}`;
      if (version.version > Number(this.#version.slice(1))) this.#version = name;
    });
  }

  async #trigger(id: string): Promise<void> {
    const { caller, random } = this.#world;
    const call = { caller, params: { schedule_id: id }, query: {}, body: {}, requestUuid: random.uuid() };
    await this.#send(`trigger ${id}`, async (deps) => {
      await triggerSchedule(deps)(call as never);
    });
  }

  async #loseNextRun(id: string): Promise<void> {
    const { deps, caller, ledger } = this.#world;
    const seen = ledger.problems.length;
    await new ScheduleStore(deps, caller.workspace.id).change(id, ({ enabled, cronExpression, endsAt }) =>
      // With an end, no next run means that it is over.
      enabled && cronExpression !== null && endsAt == null ? { set: { nextRunAt: null } } : undefined,
    );
    // The ledger's report of this write is expected.
    ledger.problems.length = seen;
  }

  #putRight(): number {
    const ms = this.#setBack;
    this.#setBack = 0;
    return ms;
  }

  #jump(): void {
    const { machine } = this.#world;
    if (!machine.isIdle) return;
    const seconds = this.#random.pick([-3_600, -600, -61, -10, 5, 59, 120, 290, 400, 3_600, 10_800]);
    machine.jump(seconds * 1_000);
    if (seconds < 0) this.#setBack -= seconds * 1_000;
  }

  /** Repeats unanswered deliveries, which must be answered at once because all faults are over. */
  async #deliverAgain(): Promise<void> {
    const { ledger } = this.#world;
    for (const sender of this.#senders) {
      if (sender.key === undefined) continue;
      let isOver = false;
      const schedule = ledger.schedules.get(sender.scheduleId)!;
      const isEnabled = schedule.enabled && endOf(schedule, this.#world.machine.now()) === undefined;
      const again = this.#deliver(sender).then((isAnswered) => {
        isOver = true;
        return isAnswered;
      });
      for (let steps = 0; steps < 20 && !isOver; steps++) await this.#step();
      this.#fail(isOver ? undefined : `${sender.key} is not answered`);
      if (!(await again) && isEnabled) this.#fail(`${sender.key} was refused`);
    }
  }

  async #checkEnd(): Promise<void> {
    const { deps, ledger, machine, caller, asked, posted } = this.#world;
    const expect = (holds: boolean, problem: string) => this.#fail(holds ? undefined : problem);
    const workspaceId = caller.workspace.id;
    const store = new ScheduleStore(deps, workspaceId);
    for await (const { runId } of listOpenScheduleRuns(deps, { all: true }))
      this.#fail(`run ${runId} was never counted`);
    for (const run of ledger.runs.values()) expect(run.hasEnded, `run ${run.id} never ended`);
    for (const id of ledger.begun.keys()) {
      expect(ledger.runs.has(id) !== ledger.missed.has(id), `run ${id} was begun, and neither recorded nor missed`);
    }

    for (const id of this.#scheduleIds) {
      const [schedule] = (await withLastStatus(deps, await store.findAll([id]))) as [Schedule];
      const { runs, total } = await new RunStore(deps, workspaceId).listOfSchedule(id, { limit: 1000, offset: 0 });
      expect(total === schedule.runCount, `${id}: ${schedule.runCount} runs, but ${total} in its history`);
      const last = runs.find((run) => run.id === schedule.lastRunId);
      expect(schedule.lastRunStatus === (last?.status ?? null), `${id}: last run ${schedule.lastRunStatus}`);
      const events = await store.listEvents(id, { limit: 1000, offset: 0 });
      const count = (type: string) => events.filter((event) => event.type === type).length;
      const failed = runs.filter(({ status }) => status === 'failed' || status === 'timeout').length;
      expect(count('run_failed') === failed, `${id}: ${failed} failed, ${count('run_failed')} in the timeline`);
      const { next_run_at: shown } = viewOf(deps, schedule);
      const isTimed = schedule.enabled && schedule.cronExpression !== null;
      const timetable = isTimed ? Timetable.of(schedule.cronExpression, schedule.timezone) : undefined;
      // Past minutes do not repeat while a clock is behind.
      const since = this.#setBack > 0 ? Date.parse(shown ?? '') - 1 : machine.now();
      const next = timetable && new Date(timetable.next(since)).toISOString();
      const isOver = schedule.endsAt != null && (next ?? '') > schedule.endsAt;
      expect(shown === (isOver ? null : (next ?? null)), `${id}: next run shown ${shown}, not ${next}`);
      if (schedule.enabled && followsVersions(schedule) && !this.#unanswered.has(id)) {
        const isCurrent = Number(schedule.agentVersion.slice(1)) >= Number(this.#version.slice(1));
        expect(isCurrent, `${id}: runs ${schedule.agentVersion} after ${this.#version} was published`);
      }
    }

    await deps.endedRuns?.settle();
    let ran = 0;
    for await (const item of queryAll(deps.runs, { pk: usagePartition(workspaceId), limit: 1000 }))
      ran += Number(item.runs);
    expect(ran === ledger.runs.size, `usage has ${ran} runs of ${ledger.runs.size}`);

    const { due, concluded } = ledger.alerts;
    // Delayed retries wait longer while a clock is behind.
    expect(this.#setBack > 0 || due === concluded, `${due} alerts, of which timelines show ${concluded}`);
    expect(posted.size <= due, `${posted.size} alerts posted, ${due} due`);

    for (const [marker, times] of asked) expect(times === 1, `${marker} ran ${times} times`);
    for (const sender of this.#senders) this.#checkSender(sender);
    const host = this.#host;
    if (host instanceof QueueHost) expect(host.wrongTimers().length === 0, `timers: ${host.wrongTimers().join(', ')}`);
  }

  #checkSender({ key, marker, runIds, answers }: Sender): void {
    const { runs } = this.#world.ledger;
    const recorded = runIds.filter((id) => runs.has(id));
    const answered = new Set(answers.map(({ run_id }) => run_id));
    for (const { run_id, status } of answers) {
      const run = runs.get(run_id);
      const isRight = (status === 'success') === (run?.status === 'completed');
      this.#fail(isRight ? undefined : `${marker} was answered ${status}, but run ${run_id} ${run?.status}`);
    }
    if (key === undefined) {
      this.#fail(answered.size === answers.length ? undefined : `${marker}: two deliveries share a run`);
      return;
    }
    this.#fail(recorded.length <= 1 ? undefined : `${marker} has ${recorded.length} runs: ${recorded.join(', ')}`);
    this.#fail(answered.size <= 1 ? undefined : `${marker} was answered with ${[...answered].join(' and ')}`);
    if (answered.size === 1)
      this.#fail(recorded[0] === [...answered][0] ? undefined : `${marker}: another run answered`);
  }
}
