import type { Deps } from '#core/ports/deps.ts';
import { dueLeases, isOverdue } from '#core/runs/leases.ts';
import { askForStart } from './durable-run.ts';

/** Asks for the processes that take up the runs that no process works on, on a host that starts one for each run. */
export async function askForDueRuns(deps: Pick<Deps, 'runs' | 'clock' | 'log' | 'handOver'>): Promise<void> {
  for await (const lease of dueLeases(deps)) {
    const { workspaceId, runId, until } = lease;
    const now = deps.clock.now();
    // An alarm counts this line (lib/stacks/observability-stack.ts).
    if (isOverdue(lease, now)) deps.log.warn('run not taken up', { run_id: runId, waits_ms: now - until });
    await askForStart(deps, { workspaceId, runId });
  }
}
