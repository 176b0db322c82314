import { batchesOf } from '#core/base/batches.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { FeedRecord } from '#core/ports/feed.ts';
import { absent, type Key, lessThan, queryAll } from '#core/ports/table.ts';
import { hexOf, runIdOf, workspaceIdOf } from '../items.ts';

/*
 * Completed runs that are scored. Runs table:
 * - `WS#<workspace id>#ONLINE / <run id without dashes>`: such a run. gsi1 lists those of an agent by the end of the run until they are dealt
 *   with. The note outlives every repetition of its record in the feed, so a run is dealt with once. It names the runs of judges, which are
 *   erased with the run;
 * - `WS#<workspace id>#ONLINE_AGENTS / <agent>`: an agent with such notes. gsi1 lists all of them under `ONLINE` by the time from which a
 *   process may take them.
 */

/** Longer than a record can come again, and than a run may wait. */
const KEPT_SECONDS = 48 * 3600;
/** An agent is kept when this is less than what remains, so that few batches write it. */
const RENEWED_SECONDS = 36 * 3600;
const PUTS_AT_ONCE = 50;

const ONLINE_AGENTS = 'ONLINE';

export const onlineNoteKey = (workspaceId: string, runId: string): Key => ({
  pk: `WS#${workspaceId}#ONLINE`,
  sk: hexOf(runId),
});
export const onlineAgentKey = (workspaceId: string, agent: string): Key => ({
  pk: `WS#${workspaceId}#ONLINE_AGENTS`,
  sk: agent,
});
/** Index partition of the notes of an agent that no process has dealt with. */
export const openNotesOf = (workspaceId: string, agent: string): string => `WS#${workspaceId}#ONLINE#${agent}`;
export const onlineAgentIndex = (workspaceId: string, agent: string, from: number) => ({
  gsi1pk: ONLINE_AGENTS,
  gsi1sk: `${isoTime(from)}#${workspaceId}#${agent}`,
});

/** An agent that a process may take. */
export interface OnlineAgent {
  readonly workspaceId: string;
  readonly agent: string;
  readonly listedAs: string;
}

/** Notes the completed runs of a batch that are to be scored. Costs nothing if there are none. Safe to repeat. */
export async function noteForScores(
  { runs, clock }: Pick<Deps, 'runs' | 'clock'>,
  records: readonly FeedRecord[],
): Promise<void> {
  const heads = records.flatMap(({ item }) => (item.online === true && item.status === 'completed' ? [item] : []));
  if (heads.length === 0) return;
  const now = clock.now();
  const ttl = epochSeconds(now) + KEPT_SECONDS;
  for (const batch of batchesOf(heads, PUTS_AT_ONCE)) {
    await Promise.all(
      batch.map((head) => {
        const workspaceId = workspaceIdOf(head);
        const agent = head.agent_name as string;
        const runId = runIdOf(head);
        const gsi1pk = openNotesOf(workspaceId, agent);
        const item = { ...onlineNoteKey(workspaceId, runId), ttl, gsi1pk, gsi1sk: `${isoTime(now)}#${hexOf(runId)}` };
        return runs.put(item, absent());
      }),
    );
  }
  // Written last: who takes an agent finds its notes.
  const agents = Map.groupBy(heads, (head) => JSON.stringify([workspaceIdOf(head), head.agent_name]));
  await Promise.all(
    [...agents.keys()].map((name) => listAgent({ runs, clock }, ...(JSON.parse(name) as [string, string]))),
  );
}

async function listAgent({ runs, clock }: Pick<Deps, 'runs' | 'clock'>, workspaceId: string, agent: string) {
  const key = onlineAgentKey(workspaceId, agent);
  const now = clock.now();
  const ttl = epochSeconds(now) + KEPT_SECONDS;
  const listed = await runs.update(key, { set: { ttl, ...onlineAgentIndex(workspaceId, agent, now) } }, absent());
  if (!listed.ok) await runs.update(key, { set: { ttl } }, lessThan('ttl', epochSeconds(now) + RENEWED_SECONDS));
}

/** Returns the runs of the judges of a run. */
export async function judgesOf({ runs }: Pick<Deps, 'runs'>, workspaceId: string, runId: string): Promise<string[]> {
  const note = await runs.get(onlineNoteKey(workspaceId, runId));
  return (note?.judges as string[] | undefined) ?? [];
}

/** Yields the agents of all workspaces that no process holds. */
export async function* listOnlineAgents({ runs, clock }: Pick<Deps, 'runs' | 'clock'>): AsyncGenerator<OnlineAgent> {
  // In the sort key, `#` and names follow the time; `$` sorts after `#`.
  const sk = { lessThan: `${isoTime(clock.now())}$` };
  for await (const item of queryAll(runs, { index: 'gsi1', pk: ONLINE_AGENTS, sk })) {
    yield { workspaceId: workspaceIdOf(item), agent: item.sk, listedAs: item.gsi1sk! };
  }
}
