import { changeWorkspace } from '#core/accounts/workspaces/change.ts';
import type { AnnouncedRuns } from '#core/base/workspace.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, equals, exists, type Item, type Key, queryAll, type TransactOperation } from '#core/ports/table.ts';
import type { Destination, RunEvent } from './destination.ts';

/*
 * Main table:
 * - `WS#<workspace id>#DESTINATIONS / META`: all destinations of a workspace, so that the end of a run reads one item
 *   (gsi2 `DESTINATIONS` by the time of the last change);
 * - `WS#<workspace id>#DESTINATION#<id> / LOG#<time>#<delivery id>`: a delivery, with expiry;
 * - `WS#<workspace id>#DESTINATION#<id> / HEALTH`: the number of deliveries that failed since the last success, with
 *   expiry.
 */

/** A delivery in the log of a destination. */
export interface LogEntry {
  readonly id: string;
  /** null for a test. */
  readonly runId: string | null;
  readonly event: RunEvent;
  readonly status: 'pending' | 'delivered' | 'failed';
  readonly tries: number;
  readonly problem: string | null;
  /** ISO 8601, as are the others. */
  readonly createdAt: string;
  readonly updatedAt: string;
  /** null if there is none. */
  readonly nextTryAt: string | null;
}

/** Names an entry; `createdAt` in ISO 8601. */
export type LogName = Pick<LogEntry, 'id' | 'createdAt'> & { readonly destinationId: string };

type StoreDeps = Pick<Deps, 'main' | 'clock'>;

const LOG_KEPT_SECONDS = 7 * 24 * 3600;
const HEALTH_KEPT_SECONDS = 30 * 24 * 3600;
const INDEX = 'DESTINATIONS';

const listKey = (workspaceId: string): Key => ({ pk: `WS#${workspaceId}#DESTINATIONS`, sk: 'META' });

/** The destinations of one workspace, and their logs. */
export class DestinationStore {
  readonly #deps: StoreDeps;
  readonly #workspaceId: string;

  constructor(deps: StoreDeps, workspaceId: string) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
  }

  /** Oldest first. */
  async list(): Promise<readonly Destination[]> {
    return destinationsIn(await this.#deps.main.get(listKey(this.#workspaceId)));
  }

  async find(id: string): Promise<Destination | undefined> {
    return (await this.list()).find((each) => each.id === id);
  }

  /**
   * Changes the destinations, and notes in the workspace which of its runs are announced. `decide` gets their current
   * state, and is called again after a conflict; if it returns `undefined`, they stay unchanged.
   */
  async change(decide: (destinations: readonly Destination[]) => readonly Destination[] | undefined): Promise<boolean> {
    const { main, clock } = this.#deps;
    const isChanged = await retryOnConflict(clock, `destinations of workspace ${this.#workspaceId}`, async () => {
      const item = await main.get(listKey(this.#workspaceId));
      const destinations = decide(destinationsIn(item));
      if (destinations === undefined) return false;
      const number = (item?.change_number as number | undefined) ?? 0;
      const { ok } = await main.put(
        {
          ...listKey(this.#workspaceId),
          change_number: number + 1,
          destinations: destinations as unknown as Item['destinations'],
          gsi2pk: INDEX,
          gsi2sk: `${isoTime(clock.now())}#${this.#workspaceId}`,
        },
        item === undefined ? absent() : equals('change_number', number),
      );
      return ok || undefined;
    });
    if (isChanged) await noteDestinations(this.#deps, this.#workspaceId);
    return isChanged;
  }

  /** Writes an entry unless it exists; an existing one means that its delivery was made. */
  logOperation(destinationId: string, entry: LogEntry): TransactOperation {
    const { id, runId, event, status, tries, problem, createdAt, updatedAt, nextTryAt } = entry;
    const item: Item = {
      ...this.#logKey({ destinationId, id, createdAt }),
      run_id: runId ?? undefined,
      event,
      status,
      tries,
      problem: problem ?? undefined,
      updated_at: updatedAt,
      next_try_at: nextTryAt ?? undefined,
      ttl: epochSeconds(this.#deps.clock.now()) + LOG_KEPT_SECONDS,
    };
    return { op: 'put', item, condition: absent() };
  }

  /** Records the state of a delivery in its entry, which may have expired. */
  updateOperation(
    name: LogName,
    { status, tries, problem, nextTryAt }: Pick<LogEntry, 'status' | 'tries' | 'problem' | 'nextTryAt'>,
  ): TransactOperation {
    return {
      op: 'update',
      key: this.#logKey(name),
      changes: {
        set: {
          status,
          tries,
          updated_at: isoTime(this.#deps.clock.now()),
          ...(problem !== null && { problem }),
          ...(nextTryAt !== null && { next_try_at: nextTryAt }),
        },
        remove: [...(problem === null ? ['problem'] : []), ...(nextTryAt === null ? ['next_try_at'] : [])],
      },
      condition: exists(),
    };
  }

  /** Newest first. */
  async listLog(
    destinationId: string,
    { limit, offset }: { readonly limit: number; readonly offset: number },
  ): Promise<LogEntry[]> {
    const entries: LogEntry[] = [];
    let skipped = 0;
    const query = { pk: this.#partition(destinationId), sk: { beginsWith: 'LOG#' }, reverse: true } as const;
    for await (const item of queryAll(this.#deps.main, { ...query, limit: Math.min(limit + offset, 1000) })) {
      if (skipped++ < offset) continue;
      entries.push(entryFrom(item));
      if (entries.length === limit) break;
    }
    return entries;
  }

  /** Counts a failed delivery, and returns how many have failed since the last success. */
  async countFailure(id: string): Promise<number> {
    const ttl = epochSeconds(this.#deps.clock.now()) + HEALTH_KEPT_SECONDS;
    const updated = await this.#deps.main.update(this.#healthKey(id), { set: { ttl }, add: { failures: 1 } });
    return updated.ok ? (updated.item.failures as number) : 0;
  }

  /** Forgets failed deliveries. Writes nothing if there are none. */
  async forgetFailures(id: string): Promise<void> {
    const { main } = this.#deps;
    const failures = (await main.get(this.#healthKey(id)))?.failures;
    if (failures) await main.update(this.#healthKey(id), { set: { failures: 0 } }, exists());
  }

  #partition(destinationId: string): string {
    return `WS#${this.#workspaceId}#DESTINATION#${destinationId}`;
  }

  #healthKey(id: string): Key {
    return { pk: this.#partition(id), sk: 'HEALTH' };
  }

  #logKey({ destinationId, createdAt, id }: LogName): Key {
    return { pk: this.#partition(destinationId), sk: `LOG#${createdAt}#${id}` };
  }
}

/**
 * Records in a workspace and its copies which of its runs are announced, so that runs of workspaces without
 * destinations
 * write nothing for them. The last of several concurrent calls leaves the correct value.
 */
export async function noteDestinations(deps: StoreDeps, workspaceId: string): Promise<void> {
  const store = new DestinationStore(deps, workspaceId);
  const announced = async () => announcedRuns(await store.list());
  let noted: AnnouncedRuns | false;
  do {
    noted = await announced();
    await changeWorkspace(deps, workspaceId, { destinations: noted });
  } while (noted !== (await announced()));
}

function announcedRuns(destinations: readonly Destination[]): AnnouncedRuns | false {
  const enabled = destinations.filter((each) => each.enabled);
  if (enabled.length === 0) return false;
  return enabled.some(({ includeSubCalls }) => includeSubCalls) ? 'all' : 'top_level';
}

/** Yields the workspaces whose destinations changed after this time (epoch milliseconds). */
export async function* changedAfter({ main }: Pick<Deps, 'main'>, time: number): AsyncGenerator<string> {
  const query = { index: 'gsi2', pk: INDEX, sk: { greaterThan: isoTime(time) } } as const;
  for await (const { pk } of queryAll(main, query)) yield pk.split('#')[1]!;
}

const destinationsIn = (item: Item | undefined): readonly Destination[] =>
  (item?.destinations ?? []) as unknown as readonly Destination[];

function entryFrom({ sk, run_id, event, status, tries, problem, updated_at, next_try_at }: Item): LogEntry {
  const [, createdAt, id] = sk.split('#');
  return {
    id: id!,
    runId: (run_id as string | undefined) ?? null,
    event: event as RunEvent,
    status: status as LogEntry['status'],
    tries: tries as number,
    problem: (problem as string | undefined) ?? null,
    createdAt: createdAt!,
    updatedAt: updated_at as string,
    nextTryAt: (next_try_at as string | undefined) ?? null,
  };
}
