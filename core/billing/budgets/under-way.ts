import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, allOf, anyOf, exists, type Item, type Key, lessThan } from '#core/ports/table.ts';

type UnderWayDeps = Pick<Deps, 'counters' | 'clock'>;

/** A run that begins, with what it is expected to cost. */
export interface Commitment {
  readonly workspaceId: string;
  readonly runId: string;
  /** `org/agent`. */
  readonly agent: string;
  /** Its price and the estimate of the rest, in millionths of a US dollar. */
  readonly micro: number;
  /** Epoch milliseconds: by then the run has ended, whatever becomes of its host. */
  readonly expiresAt: number;
}

/** How much a budget has left beside what is spent, in millionths of a US dollar; `agent` as in {@link Commitment}, null for all agents. */
export interface Room {
  readonly agent: string | null;
  readonly micro: number;
}

/** Each attempt fails only because another run began or ended at the same time. */
const MAX_ATTEMPTS = 20;
const KEPT_SECONDS = 24 * 3600;

/**
 * Counters table: `BUDGETS#<workspace id> / UNDERWAY` has what runs under way are expected to cost: `all`, the sum; `a:<agent>`, the
 * sums of agents; and `r:<run id>` for each run, whose host may die. Only workspaces with a budget that blocks runs have it.
 */
const keyOf = (workspaceId: string): Key => ({ pk: `BUDGETS#${workspaceId}`, sk: 'UNDERWAY' });
const sumOf = (agent: string | null): string => (agent === null ? 'all' : `a:${agent}`);
const entryOf = (runId: string): string => `r:${runId}`;

type Entry = readonly [micro: number, expiresAtSeconds: number, agent: string];

/**
 * Adds a run to those under way if each budget has room beside them, in one write. Returns the index of a room that is used up
 * otherwise; `undefined` if the run was added. Runs whose time is over no longer count.
 */
export async function commit(
  deps: UnderWayDeps,
  { workspaceId, runId, agent, micro, expiresAt }: Commitment,
  rooms: readonly Room[],
): Promise<number | undefined> {
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
        ...rooms.map((room) => anyOf(absent(sumOf(room.agent)), lessThan(sumOf(room.agent), room.micro))),
      ),
    );
    if (added.ok) return undefined;
    const item = await counters.get(keyOf(workspaceId));
    // It was sent twice.
    if (item?.[entryOf(runId)] !== undefined) return undefined;
    const usedUp = rooms.findIndex((room) => ((item?.[sumOf(room.agent)] as number | undefined) ?? 0) >= room.micro);
    const isFreed = item !== undefined && (await dropExpired(deps, workspaceId, item));
    if (!isFreed && (usedUp >= 0 || attempt === MAX_ATTEMPTS)) return Math.max(usedUp, 0);
  }
}

/** Removes a run from those under way. Safe to repeat. */
export async function release(
  { counters }: Pick<UnderWayDeps, 'counters'>,
  { workspaceId, runId, agent, micro }: Omit<Commitment, 'expiresAt'>,
): Promise<void> {
  const changes = { add: { all: -micro, [sumOf(agent)]: -micro }, remove: [entryOf(runId)] };
  await counters.update(keyOf(workspaceId), changes, exists(entryOf(runId)));
}

/** Removes runs that cannot be under way any more. Returns false if there are none. */
async function dropExpired(deps: UnderWayDeps, workspaceId: string, item: Item): Promise<boolean> {
  const now = epochSeconds(deps.clock.now());
  const expired = Object.entries(item).filter(
    (each): each is [string, Item[string] & Entry] =>
      each[0].startsWith('r:') && Array.isArray(each[1]) && Number(each[1][1]) < now,
  );
  for (const [name, [micro, , agent]] of expired) {
    await release(deps, { workspaceId, runId: name.slice(2), agent: String(agent), micro: Number(micro) });
  }
  return expired.length > 0;
}
