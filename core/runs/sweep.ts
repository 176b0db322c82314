import { leasesOf, type UnreleasedLease } from '#core/accounts/limits/admission.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type Item, queryAll } from '#core/ports/table.ts';
import { newRunFrom, openRunsByDeadline, runIdOf, runPartition, workspaceIdOf } from './items.ts';
import { findLease, laterLease } from './leases.ts';
import { knownOf } from './lost-run.ts';
import { nextTryAt } from './retries.ts';
import { CANCELLED, emptyResult, LOST, lostBefore } from './run.ts';
import { RunStore } from './store.ts';
import { WaitingRuns } from './waiting-runs.ts';

type SweepDeps = Pick<Deps, 'runs' | 'counters' | 'blobs' | 'clock' | 'ids' | 'config' | 'log'>;

/**
 * Finishes the runs of all workspaces whose host died, so that records and usage agree, and releases their leases.
 * Returns
 * the number of finished runs. Safe to run on several hosts at once, at any time.
 *
 * By default, only runs past their deadline and the grace period are finished. With `all`, every unfinished run is: use
 * it
 * only while no other process can be running any.
 */
export async function sweepLostRuns(
  deps: SweepDeps,
  { all = false }: { readonly all?: boolean } = {},
): Promise<number> {
  const deadlineBefore = all ? Date.UTC(9999, 0) : lostBefore(deps.clock.now());
  let count = 0;
  for await (const head of openRuns(deps, deadlineBefore)) {
    if (!(await isTakenUp(deps, head)) && (await finishLogged(deps, head))) count++;
  }
  for await (const lease of leasesOf(deps, { all })) {
    let isOver = true;
    for (const head of await runsOf(deps, lease)) {
      if (head.status !== 'running') continue;
      if (await isTakenUp(deps, head)) {
        isOver = false;
        continue;
      }
      const isFinished = (head.deadline as number) < deadlineBefore && (await finishLogged(deps, head));
      if (isFinished) count++;
      else isOver = false;
    }
    if (isOver) await lease.release();
  }
  return count;
}

/** Whether a process works on the run, or will take it up: a durable run is lost only with its lease. */
const isTakenUp = async (deps: Pick<Deps, 'runs'>, head: Item): Promise<boolean> =>
  head.durable === true && (await findLease(deps, runIdOf(head))) !== undefined;

/** Yields the heads of unfinished runs without a lease whose deadline is before this time (epoch milliseconds). */
async function* openRuns({ runs }: Pick<Deps, 'runs'>, deadlineBefore: number): AsyncGenerator<Item> {
  const sk = { lessThan: isoTime(deadlineBefore) };
  for (const query of openRunsByDeadline()) yield* queryAll(runs, { ...query, sk, limit: 200 });
}

/** Finds the head of the run of a lease; none if its host died before it wrote one. */
const runsOf = ({ runs }: Pick<Deps, 'runs'>, { workspaceId, runDigits }: UnreleasedLease): Promise<Item[]> =>
  Array.fromAsync(
    queryAll(runs, { pk: runPartition(workspaceId, runDigits), sk: { beginsWith: runDigits }, limit: 10 }),
  );

/**
 * Finishes a lost run. Returns false if its host finished it concurrently, or after an error: the next sweep retries.
 */
async function finishLogged(deps: SweepDeps, head: Item): Promise<boolean> {
  const run_id = runIdOf(head);
  try {
    if (!(await finishLost(deps, head))) return false;
    deps.log.warn('run lost', { run_id });
    return true;
  } catch (error) {
    deps.log.error('lost run not finished', { run_id, error: String(error) });
    return false;
  }
}

async function finishLost(deps: SweepDeps, head: Item): Promise<boolean> {
  const run = newRunFrom(head);
  const workspaceId = workspaceIdOf(head);
  const runs = new RunStore(deps, workspaceId);
  const [body, known] = await Promise.all([
    runs.body(run.id),
    knownOf(deps, { workspaceId, runId: run.id }, run.retries?.triedAt),
  ]);
  const end = head.cancel_requested_at === undefined ? LOST : CANCELLED;
  const result = { ...emptyResult(end, body?.input ?? null), ...known };
  const nextAt = nextTryAt(run.retries, end, deps.clock.now());
  if (nextAt !== undefined) {
    const lease = laterLease(deps, { workspaceId, runId: run.id }, nextAt);
    if (await new WaitingRuns(deps, workspaceId).retry(run, result, { nextAt, lease })) return true;
  }
  return runs.finish(run, result);
}
