import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, allOf, anyOf, exists, type Item, type Key, lessThan } from '#core/ports/table.ts';

type UnderWayDeps = Pick<Deps, 'counters' | 'clock'>;

/** A run that begins, with its expected cost. */
export interface Commitment {
  readonly workspaceId: string;
  readonly runId: string;
  /** `org/agent`. */
  readonly agent: string;
  /** Price plus estimated further cost, in millionths of a US dollar. */
  readonly micro: number;
  /** Epoch milliseconds by which the run has certainly ended, even if its host dies. */
  readonly expiresAt: number;
}

/** Remaining amount of a budget in millionths of a US dollar; `agent` as in {@link Commitment}, null for all agents. */
export interface Room {
  readonly agent: string | null;
  readonly micro: number;
}

/** An attempt fails only if another run began or ended at the same time. */
const MAX_ATTEMPTS = 20;
const KEPT_SECONDS = 24 * 3600;

/**
 * Counters table: `BUDGETS#<workspace id> / UNDERWAY` has the expected cost of runs in flight: `all`, the sum;
 * `a:<agent>`, the
 * sum of an agent; and `r:<run id>`, each run, whose host may die; `e:<run id>`, a run that has ended, with what it cost,
 * until its usage is summed. `summed_at` (epoch milliseconds) is when one was last removed, because its usage was summed:
 * a spend that was read before lacks it. Only workspaces with a budget that blocks runs have it.
 */
const keyOf = (workspaceId: string): Key => ({ pk: `BUDGETS#${workspaceId}`, sk: 'UNDERWAY' });
const sumOf = (agent: string | null): string => (agent === null ? 'all' : `a:${agent}`);
const entryOf = (runId: string): string => `r:${runId}`;
const endedEntryOf = (runId: string): string => `e:${runId}`;

type Entry = readonly [micro: number, expiresAtSeconds: number, agent: string];

/** Result of {@link commit}, if the run was not added: an exhausted budget, or a spend that was read too early. */
export type Refused = { readonly usedUp: number } | { readonly summedAt: number };

/**
 * Adds a run to those in flight, in one write, if each budget can still cover it. Returns `undefined` if it was added.
 * Expired runs no longer count.
 *
 * @param readAt When the spend of the rooms was read, in epoch milliseconds. @default - recently enough
 */
export async function commit(
  deps: UnderWayDeps,
  { workspaceId, runId, agent, micro, expiresAt }: Commitment,
  rooms: readonly Room[],
  readAt?: number,
): Promise<Refused | undefined> {
  const { counters } = deps;
  const entry: Entry = [micro, epochSeconds(expiresAt), agent];
  for (let attempt = 1; ; attempt++) {
    const added = await counters.update(
      keyOf(workspaceId),
      {
        add: { all: micro, [sumOf(agent)]: micro },
        set: { [entryOf(runId)]: [...entry], ttl: epochSeconds(expiresAt) + KEPT_SECONDS },
      },
      allOf(
        absent(entryOf(runId)),
        ...(readAt === undefined ? [] : [anyOf(absent('summed_at'), lessThan('summed_at', readAt + 1))]),
        ...rooms.map((room) => anyOf(absent(sumOf(room.agent)), lessThan(sumOf(room.agent), room.micro))),
      ),
    );
    if (added.ok) return undefined;
    const item = await counters.get(keyOf(workspaceId));
    // The write was sent twice.
    if (item?.[entryOf(runId)] !== undefined) return undefined;
    const summedAt = (item?.summed_at as number | undefined) ?? 0;
    if (readAt !== undefined && summedAt > readAt) return { summedAt };
    const usedUp = rooms.findIndex((room) => ((item?.[sumOf(room.agent)] as number | undefined) ?? 0) >= room.micro);
    const isFreed = item !== undefined && (await dropExpired(deps, workspaceId, item));
    if (!isFreed && (usedUp >= 0 || attempt === MAX_ATTEMPTS)) return { usedUp: Math.max(usedUp, 0) };
  }
}

/** Removes a run from those in flight, unless it has ended. Safe to repeat. */
export async function release(
  { counters }: Pick<UnderWayDeps, 'counters'>,
  { workspaceId, runId, agent, micro }: Omit<Commitment, 'expiresAt'>,
): Promise<void> {
  await remove({ counters }, workspaceId, entryOf(runId), [micro, 0, agent]);
}

/** Removes a run that another process added, unless it has ended. Safe to repeat. */
export async function releaseRun(
  { counters }: Pick<UnderWayDeps, 'counters'>,
  workspaceId: string,
  runId: string,
): Promise<void> {
  const entry = entryIn(await counters.get(keyOf(workspaceId)), entryOf(runId));
  if (entry !== undefined) await remove({ counters }, workspaceId, entryOf(runId), entry);
}

/**
 * Replaces the expected cost of a run that ends by what it cost, in millionths of a US dollar. It counts until its usage is
 * summed ({@link releaseSummed}), or for a day. Safe to repeat.
 */
export async function commitSpent(
  { counters, clock }: UnderWayDeps,
  { workspaceId, runId }: Pick<Commitment, 'workspaceId' | 'runId'>,
  spentMicro: number,
): Promise<void> {
  const entry = entryIn(await counters.get(keyOf(workspaceId)), entryOf(runId));
  if (entry === undefined) return;
  const [micro, , agent] = entry;
  const expiry = epochSeconds(clock.now()) + KEPT_SECONDS;
  const more = spentMicro - micro;
  const changes = {
    add: { all: more, [sumOf(agent)]: more },
    set: { [endedEntryOf(runId)]: [spentMicro, expiry, agent], ttl: expiry + KEPT_SECONDS },
    remove: [entryOf(runId)],
  };
  await counters.update(keyOf(workspaceId), changes, exists(entryOf(runId)));
}

/** Removes runs whose usage is summed. Safe to repeat. */
export async function releaseSummed(
  { counters, clock }: UnderWayDeps,
  workspaceId: string,
  runIds: readonly string[],
): Promise<void> {
  const item = await counters.get(keyOf(workspaceId));
  for (const name of runIds.flatMap((runId) => [entryOf(runId), endedEntryOf(runId)])) {
    const entry = entryIn(item, name);
    if (entry !== undefined) await remove({ counters }, workspaceId, name, entry, { summed_at: clock.now() });
  }
}

const entryIn = (item: Item | undefined, name: string): Entry | undefined =>
  item?.[name] as unknown as Entry | undefined;

async function remove(
  { counters }: Pick<UnderWayDeps, 'counters'>,
  workspaceId: string,
  name: string,
  [micro, , agent]: Entry,
  set: { readonly summed_at?: number } = {},
): Promise<void> {
  const changes = { add: { all: -micro, [sumOf(agent)]: -micro }, set, remove: [name] };
  await counters.update(keyOf(workspaceId), changes, exists(name));
}

/** Removes expired runs. Returns false if there are none. */
async function dropExpired(deps: UnderWayDeps, workspaceId: string, item: Item): Promise<boolean> {
  const now = epochSeconds(deps.clock.now());
  const expired = Object.entries(item).filter(
    (each): each is [string, Item[string] & Entry] =>
      /^[re]:/.test(each[0]) && Array.isArray(each[1]) && Number(each[1][1]) < now,
  );
  for (const [name, [micro, , agent]] of expired) {
    await remove(deps, workspaceId, name, [Number(micro), 0, String(agent)]);
  }
  return expired.length > 0;
}
