import { createHash } from 'node:crypto';
import type { Json } from '#core/base/json.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import {
  absent,
  allOf,
  anyOf,
  equals,
  exists,
  type Item,
  type Key,
  lessThan,
  queryAll,
  type TransactOperation,
} from '#core/ports/table.ts';
import { headKey, PLACE_CHANGES, placeKey, queuePartition } from '../items.ts';
import { beginNowOperation } from '../leases.ts';

/**
 * Which runs have a place of a limit, and which wait for one (`docs/interface/queues.md`). The runs of an agent with the same
 * key in one calling workspace share a queue. Runs table, partition `WS#<workspace id>#QUEUE#<id of the queue>`:
 *
 * - `STATE`: the numbers of places taken (`active`) and of entries that wait (`waiting`). gsi1 lists the queues that
 *   `sweep.ts` has to check, by time;
 * - `PLACE#<run id>`: a place that is taken;
 * - `WAIT#<20 - priority>#<time>#<run id>`: what waits for a place, in order: a run that is queued, or a call that is held.
 *
 * Each write changes the numbers and the items together, and a place is of a run id: so a place is never taken twice for a
 * run, and none is lost with a process.
 */
export interface Queue {
  readonly workspaceId: string;
  readonly queueId: string;
}

/** What waits for a place. */
export interface Entry {
  readonly runId: string;
  /** Sort key, which decides the order. */
  readonly sk: string;
  /** Limit of its rule: it gets a place while fewer are taken. */
  readonly limit: number;
  /** When it no longer waits, in epoch milliseconds. */
  readonly until: number;
  /** Whether it is a queued run, not a call that is held. */
  readonly isRun: boolean;
  /** Whether other runs have to make room for it. */
  readonly replaces: boolean;
}

export interface Place {
  readonly runId: string;
  /** Epoch milliseconds. */
  readonly since: number;
}

type QueueDeps = Pick<Deps, 'runs' | 'clock'>;
export type WakingDeps = QueueDeps & Pick<Deps, 'wakeRun'>;

/** Longer than any run, with the time in which it waits. Expiry only cleans up: `sweep.ts` frees places. */
const KEPT_MS = 70 * 24 * 3600 * 1000;
/** How often a queue is checked in which something waits. */
export const CHECK_MS = 60_000;

const partitionOf = ({ workspaceId, queueId }: Queue): string => queuePartition(workspaceId, queueId);
export const stateKey = (queue: Queue): Key => ({ pk: partitionOf(queue), sk: 'STATE' });
const keyOf = ({ workspaceId, queueId }: Queue, runId: string): Key => placeKey(workspaceId, queueId, runId);
export const checkPartition = (digit: string): string => `QUEUES#${digit}`;

/** Returns the id of a rule of an agent with a key, of which only the hash is stored. */
export const ruleIdOf = (
  agent: { readonly workspaceId: string; readonly name: string },
  ruleAndKey: readonly Json[],
): string =>
  createHash('sha256')
    .update(JSON.stringify([agent.workspaceId, agent.name, ...ruleAndKey]))
    .digest('hex')
    .slice(0, 32);

/** The order among what waits: by priority (-10 to 10, highest first), then by time. */
export const entryKeyOf = (priority: number, now: number, runId: string): string =>
  `WAIT#${String(20 - priority).padStart(2, '0')}#${isoTime(now)}#${runId}`;

/** Whether one entry came before another, whatever their priorities. */
export const isOlder = (one: Pick<Entry, 'sk'>, other: Pick<Entry, 'sk'>): boolean =>
  one.sk.slice('WAIT#00#'.length) < other.sk.slice('WAIT#00#'.length);

export const numberOf = (state: Item | undefined, name: 'active' | 'waiting'): number =>
  (state?.[name] as number | undefined) ?? 0;

const expiry = (now: number) => ({ ttl: epochSeconds(now + KEPT_MS) });
/** Members of `STATE` by which it is checked at a time. */
export const checkAt = ({ queueId }: Queue, at: number) => ({
  gsi1pk: checkPartition(queueId[0]!),
  gsi1sk: isoTime(at),
});

const takeOperations = (queue: Queue, runId: string, now: number): [TransactOperation, TransactOperation] => [
  { op: 'update', key: stateKey(queue), changes: { add: { active: 1 }, set: expiry(now) } },
  { op: 'put', item: { ...keyOf(queue, runId), since: now, ...expiry(now) }, condition: absent() },
];

/**
 * Takes a place for a run that is about to begin, if one is free and nothing waits for it. Returns true as well if the run
 * has one.
 */
export async function takePlace(
  { runs, clock }: QueueDeps,
  queue: Queue,
  { runId, limit }: Pick<Entry, 'runId' | 'limit'>,
): Promise<boolean> {
  const [state, place] = takeOperations(queue, runId, clock.now());
  const condition = allOf(
    anyOf(absent('active'), lessThan('active', limit)),
    anyOf(absent('waiting'), equals('waiting', 0)),
  );
  return retryOnConflict(clock, `the queue ${queue.queueId}`, async () => {
    const written = await runs.transact([{ ...state, condition } as TransactOperation, place]);
    if (written.ok || written.failed.includes(1)) return true;
    return written.failed.length > 0 ? false : undefined;
  });
}

/** Returns the writes by which something waits for a place. Call {@link grantPlaces} afterwards: one may be free already. */
export function waitOperations({ clock }: Pick<Deps, 'clock'>, queue: Queue, entry: Entry): TransactOperation[] {
  const { sk, limit, until, isRun, replaces, runId } = entry;
  const now = clock.now();
  const item = { pk: partitionOf(queue), sk, run_id: runId, limit, until, is_run: isRun, replaces, ...expiry(until) };
  const set = { ...expiry(now), ...checkAt(queue, now + CHECK_MS) };
  return [
    { op: 'put', item, condition: absent() },
    { op: 'update', key: stateKey(queue), changes: { add: { waiting: 1 }, set } },
  ];
}

/** Lets a call that is held wait for a place. */
export async function addEntry(deps: QueueDeps, queue: Queue, entry: Entry): Promise<void> {
  const operations = waitOperations(deps, queue, entry);
  await retryOnConflict(deps.clock, `the queue ${queue.queueId}`, async () => {
    const written = await deps.runs.transact(operations);
    return written.ok || written.failed.includes(0) ? true : undefined;
  });
}

/** Ends the waiting of an entry. Returns false if it had ended, perhaps because it has got its place. */
export async function removeEntry({ runs, clock }: QueueDeps, queue: Queue, sk: string): Promise<boolean> {
  return retryOnConflict(clock, `the queue ${queue.queueId}`, async () => {
    const written = await runs.transact([
      { op: 'delete', key: { pk: partitionOf(queue), sk }, condition: exists() },
      { op: 'update', key: stateKey(queue), changes: { add: { waiting: -1 }, set: expiry(clock.now()) } },
    ]);
    if (written.ok) return true;
    return written.failed.length > 0 ? false : undefined;
  });
}

/**
 * Gives back the place of a run, if it has one, and lets the next one begin. Safe to repeat.
 *
 * @param alongside Writes of the same transaction. If a condition of theirs fails, nothing changes, and it returns false.
 */
export async function leavePlace(
  deps: WakingDeps,
  queue: Queue,
  runId: string,
  alongside: readonly TransactOperation[] = [],
): Promise<boolean> {
  const { runs, clock } = deps;
  const leaves: TransactOperation[] = [
    { op: 'delete', key: keyOf(queue, runId), condition: exists() },
    { op: 'update', key: stateKey(queue), changes: { add: { active: -1 }, set: expiry(clock.now()) } },
  ];
  let hasPlace = true;
  const isWritten = await retryOnConflict(clock, `the queue ${queue.queueId}`, async () => {
    const operations = hasPlace ? [...alongside, ...leaves] : alongside;
    if (operations.length === 0) return true;
    const written = await runs.transact(operations);
    if (written.ok) return true;
    if (written.failed.some((operation) => operation < alongside.length)) return false;
    if (written.failed.length > 0) hasPlace = false;
    return undefined;
  });
  if (isWritten && hasPlace) await grantPlaces(deps, queue);
  return isWritten;
}

/** Has a queue checked soon in which nothing waits, but whose places are all taken: one may be of a process that died. */
export async function askForCheck({ runs, clock }: QueueDeps, queue: Queue): Promise<void> {
  await runs.update(stateKey(queue), { set: checkAt(queue, clock.now() + CHECK_MS) }, absent('gsi1pk'));
}

/** Gives free places to what waits for them, in order, and has the runs begin. Safe to repeat. */
export async function grantPlaces(deps: WakingDeps, queue: Queue): Promise<void> {
  const what = `the queue ${queue.queueId}`;
  for (;;) {
    const granted = await retryOnConflict(deps.clock, what, () => grantFirst(deps, queue));
    if (granted === 'none') return;
    if (granted === 'removed' || !granted.isRun) continue;
    // A lost request is made up for by the next look at due runs.
    await deps.wakeRun?.({ workspaceId: queue.workspaceId, runId: granted.runId }).catch(() => {});
  }
}

async function grantFirst(
  deps: QueueDeps,
  queue: Queue,
): Promise<Pick<Entry, 'runId' | 'isRun'> | 'removed' | 'none' | undefined> {
  const { runs, clock } = deps;
  const [state, [first]] = await Promise.all([runs.get(stateKey(queue)), entriesOf(deps, queue, 1)]);
  if (first === undefined) return 'none';
  const { runId, sk, limit, until, isRun } = first;
  const now = clock.now();
  const remove = async () => {
    await removeEntry(deps, queue, sk);
    return 'removed' as const;
  };
  if (!isRun && until < now) return remove();
  if (numberOf(state, 'active') >= limit) return 'none';
  const [, place] = takeOperations(queue, runId, now);
  const head = headKey(queue.workspaceId, runId);
  const written = await runs.transact([
    {
      op: 'update',
      key: stateKey(queue),
      changes: { add: { active: 1, waiting: -1 }, set: expiry(now) },
      condition: anyOf(absent('active'), lessThan('active', limit)),
    },
    { op: 'delete', key: { pk: partitionOf(queue), sk }, condition: exists() },
    place,
    ...(isRun
      ? [
          { op: 'update', key: head, changes: PLACE_CHANGES, condition: equals('status', 'queued') } as const,
          beginNowOperation(deps, runId),
        ]
      : []),
  ]);
  if (written.ok) return { runId, isRun };
  // It has ended, or a process is ending it.
  return written.failed.some((operation) => operation >= 2) ? remove() : undefined;
}

export const hasPlace = async ({ runs }: QueueDeps, queue: Queue, { runId }: Pick<Entry, 'runId'>): Promise<boolean> =>
  (await runs.get(keyOf(queue, runId))) !== undefined;

export const hasEntry = async ({ runs }: QueueDeps, queue: Queue, { sk }: Pick<Entry, 'sk'>): Promise<boolean> =>
  (await runs.get({ pk: partitionOf(queue), sk })) !== undefined;

/** Returns what waits, in order; at most `max` entries. */
export async function entriesOf({ runs }: QueueDeps, queue: Queue, max: number): Promise<Entry[]> {
  const { items } = await runs.query({ pk: partitionOf(queue), sk: { beginsWith: 'WAIT#' }, limit: max });
  return items.map(entryFrom);
}

/** Yields the places that are taken. */
export async function* placesOf({ runs }: QueueDeps, queue: Queue): AsyncGenerator<Place> {
  for await (const { sk, since } of queryAll(runs, { pk: partitionOf(queue), sk: { beginsWith: 'PLACE#' } }))
    yield { runId: sk.slice('PLACE#'.length), since: since as number };
}

const entryFrom = ({ sk, run_id, limit, until, is_run, replaces }: Item): Entry => ({
  runId: run_id as string,
  sk,
  limit: limit as number,
  until: until as number,
  isRun: is_run as boolean,
  replaces: replaces as boolean,
});
