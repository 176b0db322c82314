import type { Json } from '#core/base/json.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { LlmProvider } from '#core/ports/llm.ts';
import {
  absent,
  anyOf,
  equals,
  exists,
  getAll,
  type Item,
  lessThan,
  queryAll,
  type TransactOperation,
} from '#core/ports/table.ts';
import { untilWritten } from '#core/ports/until-written.ts';
import { hexOf } from '#core/runs/items.ts';
import type { RunStatus } from '#core/runs/run.ts';

/**
 * Main table:
 * - `WS#<workspace id>#SCHEDULES / <id>`: a schedule (gsi2, while it is one of type cron and enabled: `DUE#<first digit>`
 *   by its next run); a deleted one stays as long as its runs, for their history;
 * - `WS#<workspace id>#SCHEDULE_LIST / <time>#<id>`, and `...#SCHEDULE_LIST#<agent name>` with the same: where lists find it,
 *   until it is deleted;
 * - `SCHEDULE#<id> / META`: which workspace it belongs to;
 * - `SCHEDULE#<id> / EVENT#<time>#...`: an entry of its timeline, with expiry;
 * - `SCHEDULE#<id> / RUN#<run id>`: a run that is not counted yet (gsi2: `OPENRUNS#<first digit>` by time);
 * - `WS#<workspace id>#SCHEDULES / COUNT`: how many there are.
 *
 * Every change of a schedule goes by its `revision`, in one transaction with what belongs to it: the run that a due
 * minute begins, the run's end, the timeline. So a minute is taken once, and a run counted once, whoever dies when.
 */
export interface Schedule {
  readonly id: string;
  readonly workspace_id: string;
  readonly agent_id: string;
  readonly agent_workspace_id: string;
  readonly agent_org: string;
  readonly agent_name: string;
  readonly agent_version: string;
  readonly schedule_type: 'cron' | 'webhook';
  /** Null for webhooks. */
  readonly cron_expression: string | null;
  readonly timezone: string;
  readonly input_data: { readonly [member: string]: Json };
  readonly llm_provider: LlmProvider | null;
  readonly enabled: boolean;
  /** Whether it follows new versions of its agent. */
  readonly auto_update: boolean;
  /** Whether a run begins while another one goes on. */
  readonly overlap: 'allow' | 'skip';
  /** SHA-256, hexadecimal; null for crons. */
  readonly webhook_secret_hash: string | null;
  readonly webhook_secret_preview: string | null;
  readonly alert_webhook_url: string | null;
  readonly alert_on_failure_count: number;
  readonly max_consecutive_failures: number;
  readonly consecutive_failures: number;
  readonly auto_disabled_at: string | null;
  /** The first minute that is not dealt with yet, past or future; null for webhooks and while disabled. */
  readonly next_run_at: string | null;
  readonly last_run_at: string | null;
  readonly last_run_id: string | null;
  readonly last_run_status: RunStatus | null;
  readonly run_count: number;
  /** Runs that are not counted yet. */
  readonly open_runs: number;
  readonly created_by: string;
  readonly created_at: string;
  readonly updated_at: string;
  readonly deleted_at: string | null;
}

export type ScheduleEventType =
  | 'created'
  | 'updated'
  | 'enabled'
  | 'disabled'
  | 'auto_disabled'
  | 'version_updated'
  | 'run_failed'
  | 'missed'
  | 'skipped_overlap'
  | 'alert_sent'
  | 'alert_failed'
  | 'webhook_regenerated'
  | 'deleted';

/** Which schedules of a workspace are meant: of an agent, of its org, of a type. */
export interface ScheduleFilter {
  readonly agentName?: string;
  readonly agentOrg?: string;
  readonly type?: Schedule['schedule_type'];
}

export interface NewScheduleEvent {
  readonly type: ScheduleEventType;
  readonly message: string;
}

export interface ScheduleEvent {
  readonly id: string;
  readonly event_type: ScheduleEventType;
  readonly message: string | null;
  readonly created_at: string;
}

/** A run of a schedule that has begun, or is about to, and is not counted yet. */
export interface OpenScheduleRun {
  readonly schedule_id: string;
  readonly workspace_id: string;
  readonly run_id: string;
  readonly source: 'schedule' | 'manual' | 'webhook';
  /** Epoch milliseconds of the minute it belongs to, for `schedule`. */
  readonly scheduled_for?: number;
}

/** What becomes of a schedule, and what is written with it. */
export interface ScheduleChange {
  readonly set?: Partial<Schedule>;
  readonly events?: readonly NewScheduleEvent[];
  /** On the main table; when a condition of theirs does not hold, nothing is written. */
  readonly alongside?: readonly TransactOperation[];
  /** Epoch seconds at which the schedule itself goes. */
  readonly ttl?: number;
}

/** How long after its beginning a run is looked at by the sweep, and how often then. */
const SWEEP_AFTER_MS = 60_000;
/** No process stands still for longer and then goes on. */
const PREVENTED_SECONDS = 24 * 3600;
const DIGITS = '0123456789abcdef';
/** Of what the port answers at once. */
const MAX_PAGE = 1000;

type StoreDeps = Pick<Deps, 'main' | 'clock' | 'ids' | 'config'>;

const partitionOf = (workspaceId: string): string => `WS#${workspaceId}#SCHEDULES`;
const countKey = (workspaceId: string) => ({ pk: partitionOf(workspaceId), sk: 'COUNT' });
const listPartition = (workspaceId: string, agentName?: string): string =>
  `WS#${workspaceId}#SCHEDULE_LIST${agentName === undefined ? '' : `#${agentName}`}`;
const placeKey = (id: string) => ({ pk: `SCHEDULE#${id}`, sk: 'META' });
const isId = (id: string): boolean => /^[0-9a-f-]{36}$/.test(id);

/** The schedules of one workspace. */
export class ScheduleStore {
  readonly #deps: StoreDeps;
  readonly #workspaceId: string;

  constructor(deps: StoreDeps, workspaceId: string) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
  }

  #key(id: string) {
    return { pk: partitionOf(this.#workspaceId), sk: id };
  }

  /** False when the workspace has `limit` schedules already, however many are created at once. */
  async create(schedule: Schedule, limit: number): Promise<boolean> {
    const { main, clock } = this.#deps;
    if (limit < 1) return false;
    return untilWritten(clock, `the schedules of workspace ${this.#workspaceId}`, async () => {
      const created = await main.transact([
        {
          op: 'update',
          key: countKey(this.#workspaceId),
          changes: { add: { count: 1 } },
          condition: anyOf(absent('count'), lessThan('count', limit)),
        },
        { op: 'put', item: this.#item(schedule, 1), condition: absent() },
        { op: 'put', item: { ...placeKey(schedule.id), workspace_id: this.#workspaceId } },
        ...this.#entries(schedule).map((item) => ({ op: 'put', item }) as const),
        ...this.#events(schedule.id, [{ type: 'created', message: 'Schedule created.' }]),
      ]);
      if (created.ok) return true;
      return created.failed.includes(0) ? false : undefined;
    });
  }

  /** Deleted ones are not found. */
  async find(id: string): Promise<Schedule | undefined> {
    const schedule = await this.findEver(id);
    return schedule?.deleted_at === null ? schedule : undefined;
  }

  /** Also one that was deleted, as long as there may be runs of it. */
  async findEver(id: string): Promise<Schedule | undefined> {
    const item = isId(id) ? await this.#deps.main.get(this.#key(id)) : undefined;
    return item && fromItem(item);
  }

  /** Newest first, and how many there are on all pages. Reads no more than the page where nothing is filtered. */
  async list(
    filter: ScheduleFilter,
    { limit, offset }: { limit: number; offset: number },
  ): Promise<{ schedules: Schedule[]; total: number }> {
    const { main } = this.#deps;
    const isWhole = Object.values(filter).every((value) => value === undefined);
    const ids: string[] = [];
    const end = isWhole ? offset + limit : Number.POSITIVE_INFINITY;
    for await (const id of this.#listed(filter, end)) if (ids.push(id) === end) break;
    const count = isWhole ? await main.get(countKey(this.#workspaceId)) : undefined;
    const keys = ids.slice(offset, offset + limit).map((id) => this.#key(id));
    const schedules = (await getAll(main, keys)).filter((item) => item !== undefined).map(fromItem);
    const total = isWhole ? ((count?.count as number | undefined) ?? 0) : ids.length;
    return { schedules: schedules.filter(({ deleted_at }) => deleted_at === null), total };
  }

  /** Ids of all schedules of an agent, pinned and disabled ones among them. */
  async idsOf(agentName: string): Promise<string[]> {
    return Array.fromAsync(this.#listed({ agentName }));
  }

  async *#listed({ agentName, agentOrg, type }: ScheduleFilter, end = MAX_PAGE): AsyncGenerator<string> {
    const pk = listPartition(this.#workspaceId, agentName);
    const query = { pk, reverse: true, limit: Math.min(end, MAX_PAGE) };
    for await (const { sk, agent_org, schedule_type } of queryAll(this.#deps.main, query)) {
      if (agentOrg !== undefined && agent_org !== agentOrg) continue;
      if (type !== undefined && schedule_type !== type) continue;
      yield sk.slice(sk.indexOf('#') + 1);
    }
  }

  /**
   * Changes a schedule, also a deleted one, by what `decide` says of it as it is at that moment; `decide` may be asked
   * more than once. Answers the schedule as it is then; `undefined` when there is none, `decide` answered nothing, or
   * something `alongside` was refused.
   */
  async change(id: string, decide: (schedule: Schedule) => ScheduleChange | undefined): Promise<Schedule | undefined> {
    const { main, clock } = this.#deps;
    const changed = await untilWritten(clock, `schedule ${id}`, async () => {
      const item = await main.get(this.#key(id));
      if (item === undefined) return null;
      const before = fromItem(item);
      const change = decide(before);
      if (change === undefined) return null;
      const after = { ...before, ...change.set };
      const revision = item.revision as number;
      const put: TransactOperation = {
        op: 'put',
        item: { ...this.#item(after, revision + 1), ttl: change.ttl ?? item.ttl },
        condition: equals('revision', revision),
      };
      const written = await main.transact([put, ...(change.alongside ?? []), ...this.#events(id, change.events ?? [])]);
      if (written.ok) return after;
      return written.failed.some((position) => position > 0) ? null : undefined;
    });
    return changed ?? undefined;
  }

  /** What is left is its history, until that expires. Answers what it was; `undefined` when it was deleted already. */
  async remove(id: string): Promise<Schedule | undefined> {
    const ttl = this.#expiry();
    let before: Schedule | undefined;
    const removed = await this.change(id, (schedule) => {
      before = schedule;
      if (schedule.deleted_at !== null) return undefined;
      return {
        set: {
          deleted_at: isoTime(this.#deps.clock.now()),
          enabled: false,
          next_run_at: null,
          webhook_secret_hash: null,
        },
        events: [{ type: 'deleted', message: 'Schedule deleted.' }],
        alongside: [
          { op: 'update', key: countKey(this.#workspaceId), changes: { add: { count: -1 } } },
          { op: 'update', key: placeKey(id), changes: { set: { ttl } } },
          ...this.#entries(schedule).map(({ pk, sk }) => ({ op: 'delete', key: { pk, sk } }) as const),
        ],
        ttl,
      };
    });
    return removed && before;
  }

  /** The timeline, newest first. */
  async listEvents(id: string, { limit, offset }: { limit: number; offset: number }): Promise<ScheduleEvent[]> {
    const sk = { beginsWith: 'EVENT#' };
    const events: ScheduleEvent[] = [];
    const query = { pk: placeKey(id).pk, sk, reverse: true, limit: Math.min(limit + offset, 1000) };
    for await (const item of queryAll(this.#deps.main, query)) {
      const { id: eventId, event_type, message, created_at } = item as unknown as ScheduleEvent;
      events.push({ id: eventId, event_type, message, created_at });
      if (events.length === offset + limit) break;
    }
    return events.slice(offset);
  }

  /** Adds to the timeline what comes with no change of the schedule. */
  async addEvent(id: string, event: NewScheduleEvent): Promise<void> {
    await this.#deps.main.transact(this.#events(id, [event]));
  }

  #events(id: string, events: readonly NewScheduleEvent[]): TransactOperation[] {
    const { clock, ids } = this.#deps;
    const now = isoTime(clock.now());
    return events.map(({ type, message }, i) => {
      const eventId = ids.uuid();
      return {
        op: 'put',
        item: {
          pk: placeKey(id).pk,
          sk: `EVENT#${now}#${i}#${eventId}`,
          id: eventId,
          event_type: type,
          message,
          created_at: now,
          ttl: this.#expiry(),
        },
      };
    });
  }

  #expiry(): number {
    return epochSeconds(this.#deps.clock.now()) + this.#deps.config.runRetentionDays * 24 * 3600;
  }

  #entries({ id, created_at, agent_name, agent_org, schedule_type }: Schedule): Item[] {
    return [undefined, agent_name].map((agentName) => ({
      pk: listPartition(this.#workspaceId, agentName),
      sk: `${created_at}#${id}`,
      agent_org,
      schedule_type,
    }));
  }

  #item(schedule: Schedule, revision: number): Item {
    return { ...(schedule as unknown as Item), ...this.#key(schedule.id), revision, ...dueIndex(schedule) };
  }
}

/** One that is enabled and lost its next run stands before all others: whoever looks for due ones repairs it. */
function dueIndex({ id, enabled, schedule_type, next_run_at }: Schedule): Pick<Item, 'gsi2pk' | 'gsi2sk'> {
  if (!enabled || schedule_type !== 'cron') return {};
  return { gsi2pk: `DUE#${id[0]}`, gsi2sk: `${next_run_at ?? '0'}#${id}` };
}

function fromItem(item: Item): Schedule {
  const { pk, sk, ttl, gsi2pk, gsi2sk, revision, ...schedule } = item;
  return schedule as unknown as Schedule;
}

/** A schedule that was not deleted, whoever asks: the caller must know its secret, or be the platform itself. */
export async function findAnySchedule(deps: StoreDeps, id: string): Promise<Schedule | undefined> {
  const place = isId(id) ? await deps.main.get(placeKey(id)) : undefined;
  return place && new ScheduleStore(deps, place.workspace_id as string).find(id);
}

/** Enabled schedules of all workspaces whose next run is not later than `until` (epoch milliseconds). */
export function listDue({ main }: Pick<Deps, 'main'>, until: number): AsyncGenerator<Schedule> {
  // The id follows upon the time.
  return listIndexed(main, 'DUE', `${isoTime(until)}$`, fromItem);
}

/** Every enabled cron schedule of all workspaces. */
export function listTimed({ main }: Pick<Deps, 'main'>): AsyncGenerator<Schedule> {
  return listIndexed(main, 'DUE', '~', fromItem);
}

/** Runs of all workspaces that should have been counted, or at least be under way, by now; with `all` every open one. */
export function listOpenScheduleRuns(
  { main, clock }: Pick<Deps, 'main' | 'clock'>,
  { all = false }: { readonly all?: boolean } = {},
): AsyncGenerator<OpenScheduleRun> {
  return listIndexed(main, 'OPENRUNS', all ? '~' : isoTime(clock.now()), openRunFrom);
}

async function* listIndexed<T>(
  main: Deps['main'],
  kind: 'DUE' | 'OPENRUNS',
  before: string,
  read: (item: Item) => T,
): AsyncGenerator<T> {
  for (const digit of DIGITS) {
    const query = { index: 'gsi2', pk: `${kind}#${digit}`, sk: { lessThan: before }, limit: 500 } as const;
    for await (const item of queryAll(main, query)) yield read(item);
  }
}

const openRunKey = ({ schedule_id, run_id }: Pick<OpenScheduleRun, 'schedule_id' | 'run_id'>) => ({
  pk: placeKey(schedule_id).pk,
  sk: `RUN#${hexOf(run_id)}`,
});

const openRunIndex = ({ run_id }: OpenScheduleRun, now: number) => ({
  gsi2pk: `OPENRUNS#${run_id[0]}`,
  gsi2sk: `${isoTime(now + SWEEP_AFTER_MS)}#${run_id}`,
});

const openRunFrom = (item: Item): OpenScheduleRun => item as unknown as OpenScheduleRun;

/** Goes with the change that begins the run. */
export const openRunOperation = (run: OpenScheduleRun, now: number): TransactOperation => ({
  op: 'put',
  item: { ...openRunKey(run), ...run, ...openRunIndex(run, now) },
  condition: absent(),
});

/** Makes sure that a run which has not begun never does: false when it has. */
export async function preventRun(
  { main, clock }: Pick<Deps, 'main' | 'clock'>,
  run: Pick<OpenScheduleRun, 'schedule_id' | 'run_id'>,
): Promise<boolean> {
  const ttl = epochSeconds(clock.now()) + PREVENTED_SECONDS;
  // Whoever begins it finds that there is something, see {@link openRunOperation}.
  return (await main.put({ ...openRunKey(run), is_prevented: true, ttl }, anyOf(absent(), exists('is_prevented')))).ok;
}

/** Goes with the change that counts the run: refused when it was counted before. */
export const countedOperation = (run: OpenScheduleRun): TransactOperation => ({
  op: 'delete',
  key: openRunKey(run),
  condition: exists(),
});

/** Takes a run over from a process that seems to be dead; false when another did since it was listed. */
export async function takeOver({ main, clock }: Pick<Deps, 'main' | 'clock'>, run: OpenScheduleRun): Promise<boolean> {
  const { gsi2sk } = run as OpenScheduleRun & Pick<Item, 'gsi2sk'>;
  const set = openRunIndex(run, clock.now());
  return (await main.update(openRunKey(run), { set }, equals('gsi2sk', gsi2sk ?? ''))).ok;
}

/** Tells the sweep that whoever has the run is alive. */
export async function keepOpen({ main, clock }: Pick<Deps, 'main' | 'clock'>, run: OpenScheduleRun): Promise<void> {
  await main.update(openRunKey(run), { set: openRunIndex(run, clock.now()) }, exists());
}
