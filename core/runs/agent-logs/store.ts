import { type EndStatus, hasEnded, isInstallation } from '#core/base/run-kinds.ts';
import type { Deps } from '#core/ports/deps.ts';
import { queryAll } from '#core/ports/table.ts';
import { runFrom, runsByAgent } from '../items.ts';
import type { Run, RunBody } from '../run.ts';
import { RunStore } from '../store.ts';

/** A run as an agent's owners may see it: without the caller's input and output. */
export type AgentRun = Run & Pick<RunBody, 'stdout' | 'stderr'>;

/**
 * Lists the latest runs of an agent version with their logs, newest first, from all workspaces that call it. Show them
 * only to the agent's owners. `before` is an ISO 8601 time.
 */
export async function listAgentRuns(
  deps: Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config'>,
  agentId: string,
  { limit, before }: { readonly limit: number; readonly before?: string },
): Promise<AgentRun[]> {
  const sk = before === undefined ? undefined : { lessThan: before };
  const { items } = await deps.runs.query({ ...runsByAgent(agentId), sk, limit });
  return Promise.all(
    items.map(async (head) => {
      const run = runFrom(head, deps.clock.now());
      const body = await new RunStore(deps, run.workspaceId).body(run.id);
      return { ...run, stdout: body?.stdout ?? '', stderr: body?.stderr ?? '' };
    }),
  );
}

/** Finds the newest ended run of an agent version, from all workspaces that call it; skips installations. */
export async function lastRunOf(
  { runs, clock }: Pick<Deps, 'runs' | 'clock'>,
  agentId: string,
): Promise<EndedRun | undefined> {
  for await (const head of queryAll(runs, { ...runsByAgent(agentId), limit: 2 })) {
    const run = runFrom(head, clock.now());
    const { status } = run;
    if (!isInstallation(run) && hasEnded(status)) return { ...run, status };
  }
  return undefined;
}

type EndedRun = Run & { readonly status: EndStatus };
