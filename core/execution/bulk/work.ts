import { isUsedUp, type LimitError } from '#core/accounts/limits/rate-limit.ts';
import { findMembership } from '#core/accounts/workspaces/store.ts';
import type { Caller } from '#core/base/caller.ts';
import { derivedUuid } from '#core/base/derived-uuid.ts';
import { isPlatformError, type PlatformError } from '#core/base/errors.ts';
import { isInstallation } from '#core/base/run-kinds.ts';
import type { Deps } from '#core/ports/deps.ts';
import { heartbeat } from '#core/ports/heartbeat.ts';
import {
  appliesTo,
  type Bulk,
  type BulkFailure,
  type BulkPlace,
  MAX_BULK_RUNS,
  MAX_FAILURES_SHOWN,
} from '#core/runs/bulk/bulk.ts';
import { BulkStore, type DueBulk } from '#core/runs/bulk/store.ts';
import { cancelRun } from '#core/runs/cancellation.ts';
import { scanRuns } from '#core/runs/listing.ts';
import { RunStore } from '#core/runs/store.ts';
import { startReplay } from '../calls/replay.ts';

const HEARTBEAT_MS = 20_000;
/**
 * Number of runs recorded as a page before work on them starts; after a crash, another process checks this many again.
 */
const PAGE = 20;
/** Concurrent runs of one bulk action, which leaves capacity for the workspace's other calls. */
const AT_ONCE = 4;
/** Delay before the next attempt if the concurrency limit is reached. */
const NO_ROOM_MS = 10_000;
/** A bulk action may wait for the next day's call quota, but not indefinitely. */
const MAX_AGE_MS = 3 * 24 * 3600_000;

/** Result for a run. `until`: limits block the run before this time (epoch milliseconds). */
type Outcome = 'done' | 'skipped' | BulkFailure | { readonly until: number };

/**
 * Works on a bulk action until it is over or `until` (epoch milliseconds), unless another process holds it. Returns when
 * the runs that it started have ended.
 */
export async function workOn(deps: Deps, due: DueBulk, until: number): Promise<void> {
  const { clock, ids } = deps;
  const store = new BulkStore(deps, due.workspaceId);
  const token = ids.uuid();
  const taken = await store.take(due, token);
  if (taken === undefined) return;
  const stop = heartbeat(clock, HEARTBEAT_MS, () => store.hold(taken.id, token));
  try {
    let bulk = taken;
    for (;;) {
      const problem = await whyNot(deps, bulk);
      if (problem !== undefined) {
        await store.end(bulk.id, { status: 'failed', message: problem }, token);
        return;
      }
      // Another process may have aborted or claimed the action.
      if (!(await store.hold(bulk.id, token))) return;
      if (bulk.page.length === 0) {
        const begun = await nextPage(deps, store, bulk);
        if (begun === undefined) {
          await store.end(bulk.id, { status: 'completed', message: endMessage(bulk) }, token);
          return;
        }
        if (!(await store.beginPage(bulk.id, token, begun))) return;
        bulk = { ...bulk, ...begun };
      }
      const { progress, resumeAt } = await workOnPage(deps, store, bulk, until);
      const failures = [...bulk.failures, ...progress.failures].slice(0, MAX_FAILURES_SHOWN);
      bulk = {
        ...bulk,
        failures,
        page: progress.page,
        done: bulk.done + progress.done,
        skipped: bulk.skipped + progress.skipped,
        failed: bulk.failed + progress.failures.length,
      };
      if (!(await store.addProgress(bulk, token, progress))) return;
      if (resumeAt !== undefined || clock.now() >= until) {
        stop();
        await store.hold(bulk.id, token, resumeAt ?? clock.now());
        return;
      }
    }
  } finally {
    stop();
  }
}

const ignore = (): void => {};

async function whyNot(deps: Deps, bulk: Bulk): Promise<string | undefined> {
  if (deps.clock.now() - Date.parse(bulk.createdAt) > MAX_AGE_MS) return 'It was not completed within three days.';
  if (await callerOf(deps, bulk)) return undefined;
  return 'The user who started it is no longer a member of the workspace.';
}

async function callerOf(deps: Deps, bulk: Bulk): Promise<Caller | undefined> {
  const { createdBy: userId, workspaceId, id } = bulk;
  const membership = await findMembership(deps, userId, workspaceId);
  return membership && { ...membership, userId, keyId: id, ...(bulk.isBound && { limits: { workspaceId } }) };
}

const countOf = ({ done, skipped, failed }: Bulk): number => done + skipped + failed;

function endMessage(bulk: Bulk): string | null {
  if (bulk.filter === null || countOf(bulk) < MAX_BULK_RUNS) return null;
  return `Ended at ${MAX_BULK_RUNS} runs: start another bulk action for the rest.`;
}

/** Returns the next page of runs, empty if none of the next records match; `undefined` if there are no more. */
async function nextPage(
  deps: Deps,
  store: BulkStore,
  bulk: Bulk,
): Promise<{ page: readonly string[]; next: BulkPlace | null } | undefined> {
  if (bulk.filter === null) {
    const all = await store.runIds(bulk.id);
    const index = bulk.next !== null && 'index' in bulk.next ? bulk.next.index : all.length;
    const page = all.slice(index, index + PAGE);
    return page.length === 0 ? undefined : { page, next: { index: index + PAGE } };
  }
  const place = bulk.next;
  if (place === null || countOf(bulk) >= MAX_BULK_RUNS) return undefined;
  const after = 'index' in place ? undefined : place;
  const { found, end } = await scanRuns(deps, bulk.workspaceId, bulk.filter, { after, wanted: PAGE });
  const page = found.filter(({ run }) => appliesTo(bulk.action, run)).map(({ run }) => run.id);
  return { page, next: end ?? null };
}

async function workOnPage(deps: Deps, store: BulkStore, bulk: Bulk, until: number) {
  const left = [...bulk.page];
  const outcomes: { runId: string; outcome: Outcome }[] = [];
  let mayGoOn = true;
  const worker = async (): Promise<void> => {
    while (mayGoOn && left.length > 0 && deps.clock.now() < until) {
      const runId = left.shift()!;
      const outcome = await deal(deps, bulk, runId);
      outcomes.push({ runId, outcome });
      if (typeof outcome === 'object' && 'until' in outcome) mayGoOn = false;
      else if (left.length > 0) mayGoOn &&= (await store.find(bulk.id))?.status === 'running';
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  const failures: BulkFailure[] = [];
  let [done, skipped] = [0, 0];
  let resumeAt: number | undefined;
  for (const { runId, outcome } of outcomes) {
    if (outcome === 'done') done++;
    else if (outcome === 'skipped') skipped++;
    else if ('until' in outcome) {
      left.push(runId);
      resumeAt = Math.max(resumeAt ?? 0, outcome.until);
    } else failures.push(outcome);
  }
  return { progress: { done, skipped, failures, page: left }, resumeAt };
}

async function deal(deps: Deps, bulk: Bulk, runId: string): Promise<Outcome> {
  const failure = (code: string, message: string): BulkFailure => ({ run_id: runId, code, message });
  try {
    return bulk.action === 'cancel' ? await cancel(deps, bulk, runId) : await replay(deps, bulk, runId);
  } catch (error) {
    if (!isPlatformError(error)) {
      deps.log.error('run of a bulk action failed', { bulk_id: bulk.id, run_id: runId, error: String(error) });
      return failure('INTERNAL_ERROR', 'The platform failed to replay this run.');
    }
    return error.code === 'RATE_LIMITED' ? { until: roomAt(deps, error) } : failure(error.code, error.message);
  }
}

/** Returns when to try again: shortly, or when the daily quota resets. */
function roomAt({ clock }: Pick<Deps, 'clock'>, error: PlatformError): number {
  const soon = clock.now() + NO_ROOM_MS;
  return isUsedUp(error) ? Math.max(soon, (error as LimitError).rateLimit.resetAt) : soon;
}

async function cancel(deps: Deps, { workspaceId }: Bulk, runId: string): Promise<Outcome> {
  const runs = new RunStore(deps, workspaceId);
  const run = await runs.find(runId);
  if (run !== undefined && isInstallation(run)) return 'skipped';
  if (await cancelRun(deps, workspaceId, runId)) return 'done';
  // A process that died may already have cancelled it.
  return (await runs.find(runId))?.status === 'cancelled' ? 'done' : 'skipped';
}

async function replay(deps: Deps, bulk: Bulk, runId: string): Promise<Outcome> {
  const runs = new RunStore(deps, bulk.workspaceId);
  const newId = idOfReplay(bulk.id, runId);
  const isBegun = async () => (await runs.find(newId)) !== undefined;
  if (await isBegun()) {
    await runs.noteReplay(runId);
    return 'done';
  }
  const caller = await callerOf(deps, bulk);
  if (caller === undefined) return { until: deps.clock.now() };
  const agentVersion = bulk.agentVersion ?? undefined;
  const request = { caller, name: runId, runId: newId, receivedAt: deps.clock.now(), agentVersion };
  const { started } = await startReplay(deps, request).catch(async (error: unknown) => {
    // Another process was faster.
    if (!isPlatformError(error) && (await isBegun())) return { started: undefined };
    throw error;
  });
  // The run's record has its end.
  await started?.finish().catch(ignore);
  return 'done';
}

/** Derives the id of the run that replays a run for a bulk action; every process derives the same id. */
export const idOfReplay = (bulkId: string, runId: string): string => derivedUuid(bulkId, runId);
