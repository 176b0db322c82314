import type { Deps } from '#core/ports/deps.ts';
import { dueLeases } from '#core/runs/leases.ts';
import { askForStart } from './durable-run.ts';

/** Asks for the processes that take up the runs that no process works on, on a host that starts one for each run. */
export async function askForDueRuns(deps: Pick<Deps, 'runs' | 'clock' | 'log' | 'handOver'>): Promise<void> {
  for await (const { workspaceId, runId } of dueLeases(deps)) await askForStart(deps, { workspaceId, runId });
}
