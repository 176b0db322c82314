import type { Deps } from '#core/ports/deps.ts';
import { dueLeases } from '#core/runs/leases.ts';
import { askForStart } from './durable-run.ts';

/** A run that has waited for longer was asked for several times. */
const LEFT_MS = 3 * 60_000;

/** Asks for the processes that take up the runs that no process works on, on a host that starts one for each run. */
export async function askForDueRuns(deps: Pick<Deps, 'runs' | 'clock' | 'log' | 'handOver'>): Promise<void> {
  for await (const { workspaceId, runId, until } of dueLeases(deps)) {
    const waits_ms = deps.clock.now() - until;
    // An alarm counts this line (lib/stacks/observability-stack.ts).
    if (waits_ms > LEFT_MS) deps.log.warn('run not taken up', { run_id: runId, waits_ms });
    await askForStart(deps, { workspaceId, runId });
  }
}
