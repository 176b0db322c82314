import type { UseReader } from '#core/accounts/resources/quota.ts';
import { keepParked } from '#core/accounts/workspaces/moving.ts';
import { timelineIndex } from '#core/accounts/workspaces/timeline.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import {
  absent,
  anyOf,
  type Condition,
  equals,
  getAll,
  type Item,
  lessThan,
  queryAll,
  type TransactOperation,
} from '#core/ports/table.ts';
import { attributesOf, firstIndexed, listIndexed, metaKey, scheduleFrom } from './items.ts';
import type { NewScheduleEvent, Schedule, ScheduleEvent } from './schedule.ts';
import { ended, endedEvent, endOf } from './timing/ending.ts';

/*
 * Main table:
 * - `WS#<workspace id>#SCHEDULES / <id>`: a schedule (gsi2, while it is an enabled cron: `DUE#<two digits>` by its
 *   next run; while it is an enabled webhook with an end, by that end); a deleted one is kept as long as its runs, for
 *   their history;
 * - `WS#<workspace id>#SCHEDULE_LIST / <time>#<id>`, and `...#SCHEDULE_LIST#<agent name>` with the same: the entries
 *   that lists read, until the schedule is deleted;
 * - `SCHEDULE#<id> / META`: the workspace it belongs to;
 * - `SCHEDULE#<id> / EVENT#<time>#<number of the change>#...`: an entry of its timeline, with expiry (gsi1: the
 *   workspace's timeline);
 * - `SCHEDULE#<id> / RUN#<run id>`: a run that is not counted yet, see `open-runs.ts`;
 * - `WS#<workspace id>#SCHEDULES / COUNT`: the number of schedules.
 *
 * Every change of a schedule is conditional on its `revision`, and shares one transaction with its side effects: the
 * run that a due minute begins, the end of the run, the timeline. So a minute is claimed once and a run is counted
 * once, whichever process dies. A change after which a schedule runs no more also ends it, see `timing/ending.ts`.
 */

/** Filters schedules of a workspace by agent, by the agent's org, or by type. */
export interface ScheduleFilter {
  readonly agentName?: string | undefined;
  readonly agentOrg?: string | undefined;
  readonly type?: Schedule['type'] | undefined;
}

/** A change of a schedule, and the writes of its transaction. */
export interface ScheduleChange {
  readonly set?: Partial<Schedule>;
  readonly events?: readonly NewScheduleEvent[];
  /** Further operations on the main table. If one of their conditions fails, nothing is written. */
  readonly alongside?: readonly TransactOperation[];
  /** Epoch seconds at which the schedule itself expires. */
  readonly ttl?: number;
}

/** Maximum page size of the port. */
const MAX_PAGE = 1000;

type StoreDeps = Pick<Deps, 'main' | 'clock' | 'ids' | 'config'>;

const partitionOf = (workspaceId: string): string => `WS#${workspaceId}#SCHEDULES`;
/** Reads the number of schedules in a workspace. */
export const scheduleUse =
  ({ main }: Pick<Deps, 'main'>): UseReader =>
  async (workspaceId) => ({ schedules: ((await main.get(countKey(workspaceId)))?.count as number | undefined) ?? 0 });

const scheduleKey = (workspaceId: string, id: string) => ({ pk: partitionOf(workspaceId), sk: id });
const countKey = (workspaceId: string) => ({ pk: partitionOf(workspaceId), sk: 'COUNT' });
const listPartition = (workspaceId: string, agentName?: string): string =>
  `WS#${workspaceId}#SCHEDULE_LIST${agentName === undefined ? '' : `#${agentName}`}`;
const isId = (id: string): boolean => /^[0-9a-f-]{36}$/.test(id);

/** Stores the schedules of one workspace. */
export class ScheduleStore {
  readonly #deps: StoreDeps;
  readonly #workspaceId: string;

  constructor(deps: StoreDeps, workspaceId: string) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
  }

  /** Creates a schedule. Returns false if the workspace already has `limit` schedules; safe for concurrent calls. */
  async create(schedule: Schedule, limit: number): Promise<boolean> {
    const { main, clock } = this.#deps;
    if (limit < 1) return false;
    return retryOnConflict(clock, `the schedules of workspace ${this.#workspaceId}`, async () => {
      const created = await main.transact([
        {
          op: 'update',
          key: countKey(this.#workspaceId),
          changes: { add: { count: 1 } },
          condition: anyOf(absent('count'), lessThan('count', limit)),
        },
        { op: 'put', item: this.#item(schedule, 1), condition: absent() },
        { op: 'put', item: { ...metaKey(schedule.id), workspace_id: this.#workspaceId } },
        ...this.#listEntries(schedule).map((item) => ({ op: 'put', item }) as const),
        ...this.#eventOperations(schedule.id, [{ type: 'created', message: 'Schedule created.' }], { change: 1 }),
      ]);
      if (created.ok) return true;
      return created.failed.includes(0) ? false : undefined;
    });
  }

  /** Returns a schedule unless it is deleted. */
  async find(id: string): Promise<Schedule | undefined> {
    const schedule = await this.findEver(id);
    return schedule?.deletedAt === null ? schedule : undefined;
  }

  /** Returns a schedule even if it is deleted, as long as its runs may exist. */
  async findEver(id: string): Promise<Schedule | undefined> {
    const item = isId(id) ? await this.#deps.main.get(scheduleKey(this.#workspaceId, id)) : undefined;
    return item && scheduleFrom(item);
  }

  /** Returns the existing schedules with these IDs in this order, including deleted ones. */
  async findAll(ids: readonly string[]): Promise<Schedule[]> {
    const keys = ids.map((id) => scheduleKey(this.#workspaceId, id));
    return (await getAll(this.#deps.main, keys)).filter((item) => item !== undefined).map(scheduleFrom);
  }

  /** Returns a page, newest first, and the total of all pages. Without a filter, reads only the page. */
  async list(
    filter: ScheduleFilter,
    { limit, offset }: { limit: number; offset: number },
  ): Promise<{ schedules: Schedule[]; total: number }> {
    const { main } = this.#deps;
    const isUnfiltered = Object.values(filter).every((value) => value === undefined);
    const ids: string[] = [];
    const end = isUnfiltered ? offset + limit : Number.POSITIVE_INFINITY;
    for await (const id of this.#listIds(filter, end)) if (ids.push(id) === end) break;
    const count = isUnfiltered ? await main.get(countKey(this.#workspaceId)) : undefined;
    const schedules = await this.findAll(ids.slice(offset, offset + limit));
    const total = isUnfiltered ? ((count?.count as number | undefined) ?? 0) : ids.length;
    return { schedules: schedules.filter(({ deletedAt }) => deletedAt === null), total };
  }

  /** Returns the IDs of all schedules of an agent, including pinned and disabled ones. */
  async idsOf(agentName: string): Promise<string[]> {
    return Array.fromAsync(this.#listIds({ agentName }));
  }

  async *#listIds({ agentName, agentOrg, type }: ScheduleFilter, end = MAX_PAGE): AsyncGenerator<string> {
    const pk = listPartition(this.#workspaceId, agentName);
    const query = { pk, reverse: true, limit: Math.min(end, MAX_PAGE) };
    for await (const { sk, agent_org, schedule_type } of queryAll(this.#deps.main, query)) {
      if (agentOrg !== undefined && agent_org !== agentOrg) continue;
      if (type !== undefined && schedule_type !== type) continue;
      yield sk.slice(sk.indexOf('#') + 1);
    }
  }

  /**
   * Changes a schedule, even a deleted one. `decide` gets its current state, and may be called again after a concurrent
   * change; `undefined` leaves the schedule unchanged. A schedule is parked while its workspace moves to another cell.
   *
   * @param listed The item as read from a list, which saves a read unless the item has changed since.
   * @returns the changed schedule; `undefined` if it does not exist, `decide` returned `undefined`, or an operation in
   * `alongside` failed.
   */
  async change(
    id: string,
    decide: (
      schedule: Schedule,
      state: { readonly isParked: boolean },
    ) => ScheduleChange | undefined | Promise<ScheduleChange | undefined>,
    listed?: Item,
  ): Promise<Schedule | undefined> {
    const { main, clock } = this.#deps;
    let known = listed;
    const changed = await retryOnConflict(clock, `schedule ${id}`, async () => {
      const item = known ?? (await main.get(scheduleKey(this.#workspaceId, id)));
      known = undefined;
      if (item === undefined) return null;
      const before = scheduleFrom(item);
      const change = await decide(before, { isParked: item.moving === true });
      if (change === undefined) return null;
      const { set, alongside = [], ttl = item.ttl } = change;
      const changed = { ...before, ...set };
      const now = clock.now();
      const reason = endOf(changed, now);
      const after = reason ? { ...changed, ...ended(reason, now) } : changed;
      const events = [...(change.events ?? []), ...(reason ? [endedEvent(reason, after)] : [])];
      const revision = item.revision as number;
      const put: TransactOperation = {
        op: 'put',
        item: keepParked(item, { ...this.#item(after, revision + 1), ttl }),
        condition: equals('revision', revision),
      };
      const written = await main.transact([
        put,
        ...alongside,
        ...this.#eventOperations(id, events, { change: revision + 1 }),
      ]);
      if (written.ok) return after;
      return written.failed.some((position) => position > 0) ? null : undefined;
    });
    return changed ?? undefined;
  }

  /**
   * Deletes a schedule; its history is kept until it expires.
   *
   * @returns the schedule before the deletion; `undefined` if it does not exist or was already deleted.
   */
  async remove(id: string): Promise<Schedule | undefined> {
    const ttl = this.#expiry();
    let before: Schedule | undefined;
    const removed = await this.change(id, (schedule) => {
      before = schedule;
      if (schedule.deletedAt !== null) return undefined;
      return {
        set: { deletedAt: isoTime(this.#deps.clock.now()), enabled: false, nextRunAt: null, webhookSecretHash: null },
        events: [{ type: 'deleted', message: 'Schedule deleted.' }],
        alongside: [
          { op: 'update', key: countKey(this.#workspaceId), changes: { add: { count: -1 } } },
          { op: 'update', key: metaKey(id), changes: { set: { ttl } } },
          ...this.#listEntries(schedule).map(({ pk, sk }) => ({ op: 'delete', key: { pk, sk } }) as const),
        ],
        ttl,
      };
    });
    return removed && before;
  }

  /** Returns the timeline, newest first. */
  async listEvents(id: string, { limit, offset }: { limit: number; offset: number }): Promise<ScheduleEvent[]> {
    const sk = { beginsWith: 'EVENT#' };
    const events: ScheduleEvent[] = [];
    const query = { pk: metaKey(id).pk, sk, reverse: true, limit: Math.min(limit + offset, MAX_PAGE) };
    for await (const item of queryAll(this.#deps.main, query)) {
      if (events.push(eventFrom(item)) === offset + limit) break;
    }
    return events.slice(offset);
  }

  /** Adds an entry to the timeline without changing the schedule. */
  async addEvent(id: string, event: NewScheduleEvent): Promise<void> {
    await this.#deps.main.transact(this.#eventOperations(id, [event]));
  }

  #eventOperations(
    id: string,
    events: readonly NewScheduleEvent[],
    { change }: { readonly change?: number } = {},
  ): TransactOperation[] {
    const { clock, ids } = this.#deps;
    const now = clock.now();
    const created_at = isoTime(now);
    return events.map(({ type, message, slot }, i) => {
      const eventId = ids.uuid();
      // Several entries may have the same time.
      const order = change === undefined ? `~#${eventId}` : `${String(change).padStart(9, '0')}#${i}`;
      const key = { pk: metaKey(id).pk, sk: `EVENT#${created_at}#${order}` };
      const listed = timelineIndex(this.#workspaceId, now, `${order}#${eventId}`);
      const slots = slot && { slot_at: isoTime(slot.at), slot_count: slot.count };
      const about = { id: eventId, event_type: type, message, created_at, ...slots };
      return { op: 'put', item: { ...key, ...listed, ...about, ttl: this.#expiry() } };
    });
  }

  #expiry(): number {
    return epochSeconds(this.#deps.clock.now()) + this.#deps.config.runRetentionDays * 24 * 3600;
  }

  #listEntries({ id, createdAt, agentName, agentOrg, type }: Schedule): Item[] {
    return [undefined, agentName].map((listedAgent) => ({
      pk: listPartition(this.#workspaceId, listedAgent),
      sk: `${createdAt}#${id}`,
      agent_org: agentOrg,
      schedule_type: type,
    }));
  }

  #item(schedule: Schedule, revision: number): Item {
    return {
      ...attributesOf(schedule),
      ...scheduleKey(this.#workspaceId, schedule.id),
      revision,
      ...dueIndex(schedule),
    };
  }
}

/** Returns an operation for a transaction that requires `condition` of the schedule, and does not change it. */
export const checkSchedule = (workspaceId: string, id: string, condition: Condition): TransactOperation => ({
  op: 'check',
  key: scheduleKey(workspaceId, id),
  condition,
});

/** An enabled cron without a next run sorts first, so that the next query for due schedules repairs it. */
function dueIndex({ id, enabled, type, nextRunAt, endsAt }: Schedule): Pick<Item, 'gsi2pk' | 'gsi2sk'> {
  const due = type === 'cron' ? (nextRunAt ?? '0') : endsAt;
  return enabled && due != null ? { gsi2pk: `DUE#${id.slice(0, 2)}`, gsi2sk: `${due}#${id}` } : {};
}

const eventFrom = (item: Item): ScheduleEvent => ({
  id: item.id as string,
  type: item.event_type as ScheduleEvent['type'],
  message: item.message as string | null,
  slot:
    item.slot_at === undefined ? null : { at: Date.parse(item.slot_at as string), count: item.slot_count as number },
  createdAt: item.created_at as string,
});

/**
 * Finds a schedule of any workspace that is not deleted. Callers must check the schedule's secret, unless the platform
 * itself needs it.
 */
export async function findAnySchedule(deps: Pick<Deps, 'main'>, id: string): Promise<Schedule | undefined> {
  return (await findAnyItem(deps, id))?.schedule;
}

/** Finds a schedule like {@link findAnySchedule}, with its item for {@link ScheduleStore.change}. */
export async function findAnyItem(
  { main }: Pick<Deps, 'main'>,
  id: string,
): Promise<{ readonly schedule: Schedule; readonly item: Item } | undefined> {
  const meta = isId(id) ? await main.get(metaKey(id)) : undefined;
  const item = meta && (await main.get(scheduleKey(meta.workspace_id as string, id)));
  const schedule = item && scheduleFrom(item);
  return schedule?.deletedAt === null ? { schedule, item: item! } : undefined;
}

/** A schedule as listed by an index. */
export interface DueSchedule {
  readonly id: string;
  readonly workspaceId: string;
  /** Item as it was read, for {@link ScheduleStore.change}. */
  readonly item?: Item;
}

/**
 * Lists enabled schedules of all workspaces whose next run, or whose end as a webhook, is at or before `until` (epoch
 * milliseconds).
 */
export function listDue({ main }: Pick<Deps, 'main'>, until: number): AsyncGenerator<DueSchedule> {
  const read = (item: Item): DueSchedule => ({
    id: item.id as string,
    workspaceId: item.workspace_id as string,
    item,
  });
  // In the sort key, `#` and the id follow the time; `$` sorts after `#`.
  return listIndexed(main, { kind: 'DUE', until: `${isoTime(until)}$`, read });
}

/** Returns the earliest time (epoch milliseconds) at which {@link listDue} lists a schedule. */
export const firstDue = async ({ main }: Pick<Deps, 'main'>): Promise<number | undefined> => {
  const first = await firstIndexed(main, 'DUE');
  return first === undefined ? undefined : Date.parse(first.split('#')[0]!);
};

/** Lists every enabled cron schedule of all workspaces, and webhooks with an end. */
export function listTimed({ main }: Pick<Deps, 'main'>): AsyncGenerator<Schedule> {
  return listIndexed(main, { kind: 'DUE', until: '~', read: scheduleFrom });
}
