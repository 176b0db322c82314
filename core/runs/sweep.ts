import { forgetCall } from '#core/accounts/limits/admission.ts';
import type { Deps } from '#core/ports/deps.ts';
import { CANCELLED, emptyResult, LOST, lostBefore } from './run.ts';
import { listOpenRuns, type OpenRun, RunStore } from './store.ts';

type SweepDeps = Pick<Deps, 'runs' | 'counters' | 'blobs' | 'clock' | 'config' | 'log'>;

/**
 * Finishes the runs whose host died, so that records and usage agree: those past their deadline, or all that are open
 * when `all` says that no other process can have any. Answers how many there were. Safe to run anywhere, at any time.
 */
export async function sweepLostRuns(
  deps: SweepDeps,
  { all = false }: { readonly all?: boolean } = {},
): Promise<number> {
  const before = all ? undefined : lostBefore(deps.clock.now());
  let count = 0;
  for await (const open of listOpenRuns(deps, before)) {
    const run_id = open.run.id;
    try {
      // Past their deadlines, calls have lost their places already.
      if (all) await forgetCall(deps, open.workspaceId, run_id);
      if (!(await finishLost(deps, open))) continue;
      count++;
      deps.log.warn('run lost', { run_id });
    } catch (error) {
      // One that cannot be finished is tried again the next time, and holds up no other.
      deps.log.error('lost run not finished', { run_id, error: String(error) });
    }
  }
  return count;
}

/** False when its host has finished it meanwhile. */
async function finishLost(deps: SweepDeps, { workspaceId, run, isCancelled }: OpenRun): Promise<boolean> {
  const runs = new RunStore(deps, workspaceId);
  const body = await runs.body(run.id);
  return runs.finish(run, emptyResult(isCancelled ? CANCELLED : LOST, body?.input ?? null));
}
