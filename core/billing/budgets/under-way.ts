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
 * sum of an agent; and `r:<run id>`, each run, whose host may die. Only workspaces with a budget that blocks runs have
 * it.
 */
const keyOf = (workspaceId: string): Key => ({ pk: `BUDGETS#${workspaceId}`, sk: 'UNDERWAY' });
const sumOf = (agent: string | null): string => (agent === null ? 'all' : `a:${agent}`);
const entryOf = (runId: string): string => `r:${runId}`;

type Entry = readonly [micro: number, expiresAtSeconds: number, agent: string];

/**
 * Adds a run to those in flight, in one write, if each budget can still cover it. Returns the index of an exhausted
 * budget, or
 * `undefined` if the run was added. Expired runs no longer count.
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
    // The write was sent twice.
    if (item?.[entryOf(runId)] !== undefined) return undefined;
    const usedUp = rooms.findIndex((room) => ((item?.[sumOf(room.agent)] as number | undefined) ?? 0) >= room.micro);
    const isFreed = item !== undefined && (await dropExpired(deps, workspaceId, item));
    if (!isFreed && (usedUp >= 0 || attempt === MAX_ATTEMPTS)) return Math.max(usedUp, 0);
  }
}

/** Removes a run from those in flight. Safe to repeat. */
export async function release(
  { counters }: Pick<UnderWayDeps, 'counters'>,
  { workspaceId, runId, agent, micro }: Omit<Commitment, 'expiresAt'>,
): Promise<void> {
  const changes = { add: { all: -micro, [sumOf(agent)]: -micro }, remove: [entryOf(runId)] };
  await counters.update(keyOf(workspaceId), changes, exists(entryOf(runId)));
}

/** Removes a run that another process added. Safe to repeat. */
export async function releaseRun(
  deps: Pick<UnderWayDeps, 'counters'>,
  workspaceId: string,
  runId: string,
): Promise<void> {
  const entry = (await deps.counters.get(keyOf(workspaceId)))?.[entryOf(runId)] as unknown as Entry | undefined;
  if (entry !== undefined) await release(deps, { workspaceId, runId, agent: entry[2], micro: entry[0] });
}

/** Removes expired runs. Returns false if there are none. */
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
