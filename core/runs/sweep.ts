import { forgetCall } from '#core/accounts/limits/admission.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type Item, queryAll } from '#core/ports/table.ts';
import { newRunFrom, openRunsByDeadline, runIdOf, workspaceIdOf } from './items.ts';
import { CANCELLED, emptyResult, LOST, lostBefore } from './run.ts';
import { RunStore } from './store.ts';

type SweepDeps = Pick<Deps, 'runs' | 'counters' | 'blobs' | 'clock' | 'config' | 'log'>;

/**
 * Finishes the runs of all workspaces whose host died, so that records and usage agree. Returns how many it finished.
 * Safe to run on several hosts at once, at any time.
 *
 * By default it takes the runs that are past their deadline and the grace period; with `all`, every run that is not
 * finished: use it only while no other process can be running any.
 */
export async function sweepLostRuns(
  deps: SweepDeps,
  { all = false }: { readonly all?: boolean } = {},
): Promise<number> {
  let count = 0;
  for await (const head of openRuns(deps, all ? Date.UTC(9999, 0) : lostBefore(deps.clock.now()))) {
    const run_id = runIdOf(head);
    try {
      // The leases of calls past their deadline have expired.
      if (all) await forgetCall(deps, workspaceIdOf(head), run_id);
      if (!(await finishLost(deps, head))) continue;
      count++;
      deps.log.warn('run lost', { run_id });
    } catch (error) {
      // The next sweep tries this run again; the others go on.
      deps.log.error('lost run not finished', { run_id, error: String(error) });
    }
  }
  return count;
}

/** The heads of runs that are not finished and whose deadline is before this time (epoch milliseconds). */
async function* openRuns({ runs }: Pick<Deps, 'runs'>, deadlineBefore: number): AsyncGenerator<Item> {
  const sk = { lessThan: isoTime(deadlineBefore) };
  for (const query of openRunsByDeadline()) yield* queryAll(runs, { ...query, sk, limit: 200 });
}

/** Returns false if its host finished it in the meantime. */
async function finishLost(deps: SweepDeps, head: Item): Promise<boolean> {
  const run = newRunFrom(head);
  const runs = new RunStore(deps, workspaceIdOf(head));
  const body = await runs.body(run.id);
  const end = head.cancel_requested_at === undefined ? LOST : CANCELLED;
  return runs.finish(run, emptyResult(end, body?.input ?? null));
}
