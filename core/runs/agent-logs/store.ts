import { type EndStatus, hasEnded } from '#core/base/run-kinds.ts';
import type { Deps } from '#core/ports/deps.ts';
import { getAll } from '#core/ports/table.ts';
import { installationsOf, runFrom } from '../items.ts';
import type { Run, RunBody } from '../run.ts';
import { RunStore } from '../store.ts';
import { keysOfEnded } from './ended-runs.ts';

/** A run as an agent's owners may see it: without the caller's input and output. */
export type AgentRun = Run & Pick<RunBody, 'stdout' | 'stderr'>;

/**
 * Lists the latest ended runs of an agent version and its installations with their logs, newest first, from all workspaces
 * that call it. Show them only to the agent's owners. `before` is an ISO 8601 time.
 */
export async function listAgentRuns(
  deps: Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config' | 'endedRuns'>,
  agentId: string,
  { limit, before }: { readonly limit: number; readonly before?: string },
): Promise<AgentRun[]> {
  const sk = before === undefined ? undefined : { lessThan: before };
  const [{ items: installations }, ended] = await Promise.all([
    deps.runs.query({ ...installationsOf(agentId), sk, limit }),
    endedRunsOf(deps, agentId, { limit, ...(before !== undefined && { before }) }),
  ]);
  const all = [...installations.map((head) => runFrom(head, deps.clock.now())), ...ended];
  const latest = all.sort((a, b) => (a.startedAt < b.startedAt ? 1 : -1)).slice(0, limit);
  return Promise.all(
    latest.map(async (run) => {
      const body = await new RunStore(deps, run.workspaceId).body(run.id);
      return { ...run, stdout: body?.stdout ?? '', stderr: body?.stderr ?? '' };
    }),
  );
}

/** Finds the newest ended run of an agent version, from all workspaces that call it; skips installations. */
export async function lastRunOf(
  deps: Pick<Deps, 'runs' | 'clock' | 'endedRuns'>,
  agentId: string,
): Promise<EndedRun | undefined> {
  const run = (await endedRunsOf(deps, agentId, { limit: 1 }))[0];
  return run && hasEnded(run.status) ? { ...run, status: run.status } : undefined;
}

type EndedRun = Run & { readonly status: EndStatus };

/** Returns at most `limit` ended runs, newest first. */
async function endedRunsOf(
  { runs, clock, endedRuns }: Pick<Deps, 'runs' | 'clock' | 'endedRuns'>,
  agentId: string,
  wanted: { readonly limit: number; readonly before?: string },
): Promise<Run[]> {
  await endedRuns?.settle();
  const keys = await keysOfEnded({ runs }, agentId, wanted);
  const heads = await getAll(runs, keys.slice(0, wanted.limit));
  return heads.flatMap((head) => (head === undefined ? [] : [runFrom(head, clock.now())]));
}
