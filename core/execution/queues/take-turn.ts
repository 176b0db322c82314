import type { Deps } from '#core/ports/deps.ts';
import { giveBackLease, type Lease } from '#core/runs/leases.ts';
import { latestRun } from '#core/runs/queues/latest.ts';
import { takePlace } from '#core/runs/queues/queue.ts';
import { replacedError } from '#core/runs/queues/replace.ts';
import { nextStart, takeStart, windowAt } from '#core/runs/queues/starts.ts';
import type { NewRun } from '#core/runs/run.ts';
import { WaitingRuns } from '#core/runs/waiting-runs.ts';
import type { PreparedCall } from '../calls/prepare.ts';
import { aboveRate, notInTime, type QueueOfCall, rejected, type TurnOfCall } from './turn.ts';
import { forPlace, forStart, type Waiting, waitsUntil } from './wait-as-run.ts';

interface DueRun {
  readonly prepared: PreparedCall;
  /** The lease that this process has of the run. */
  readonly lease: Lease;
  /** Its record, as it waited. */
  readonly waiting: NewRun;
}

/**
 * Whether a run may begin that waited for its turn, its time or its next try. If a rule still holds it, it waits on. Throws
 * RATE_LIMITED if a rule refuses it, and RUN_CANCELLED if a later call replaced it.
 */
export async function takeTurn(
  deps: Deps,
  { prepared, lease, waiting }: DueRun,
  { concurrency, rate, debounce }: TurnOfCall,
): Promise<boolean> {
  const { runId } = prepared;
  const { heldBy } = waiting;
  const waitOn = async (how: Waiting): Promise<false> => {
    await hold(deps, lease, { ...waiting, queueId: concurrency?.queueId }, how);
    return false;
  };
  if (debounce !== undefined && heldBy?.rule === 'debounce') {
    const latest = await latestRun(deps, debounce);
    if (latest !== undefined && latest !== runId) throw replacedError(latest);
  }
  if (concurrency !== undefined && !waiting.hasPlace) {
    if (heldBy?.rule === 'concurrency') {
      // Taken too early.
      await giveBackLease(deps, { ...lease, takenInTurn: 0 }, { reason: 'later', dueAt: heldBy.until });
      return false;
    }
    if (!(await takePlace(deps, concurrency, { runId, limit: concurrency.rule.limit }))) {
      if (concurrency.rule.on_limit === 'reject') throw rejected(prepared, concurrency);
      return waitOn(forPlace(deps, prepared, concurrency));
    }
  }
  if (rate === undefined) return true;
  const now = deps.clock.now();
  // A start that was let for a window that is over does not count in this one.
  if (heldBy?.rule === 'rate' && heldBy.window === windowAt(rate, now)) return true;
  const start = await takeStart(deps, rate, heldBy?.until ?? waitsUntil(prepared, now));
  if (start === undefined) throw aboveRate(prepared, rate, (await nextStart(deps, rate)) - now);
  return start.at <= now || waitOn(forStart(deps, prepared, { rate, hasPlace: concurrency !== undefined }, start));
}

/**
 * Whether a run may continue that gave its place back while it waited for people, time or events. If not, it waits for its
 * turn, whatever its `on_limit` says: it has begun. A rate counts each run once. Throws TIMEOUT if its turn did not come in
 * time.
 */
export async function takeTurnAgain(
  deps: Deps,
  { prepared, lease, waiting }: DueRun,
  queue: QueueOfCall,
): Promise<boolean> {
  const { runId } = prepared;
  if (waiting.heldBy !== undefined) {
    checkTurnInTime(deps, waiting);
    // Taken too early.
    await giveBackLease(deps, unused(lease), { reason: 'turn', dueAt: waiting.heldBy.until });
    return false;
  }
  if (waiting.hasPlace || (await takePlace(deps, queue, { runId, limit: queue.rule.limit }))) return true;
  const isHeld = await hold(
    deps,
    unused(lease),
    { ...waiting, continues: true },
    forPlace(deps, prepared, queue, { replaces: false }),
  );
  // It was cancelled meanwhile: the next process ends it.
  if (!isHeld) await giveBackLease(deps, unused(lease), { reason: 'decision' });
  return false;
}

/** Throws TIMEOUT for a run that has waited for its turn until its time was over. */
export function checkTurnInTime({ clock, log }: Pick<Deps, 'clock' | 'log'>, { id, heldBy }: NewRun): void {
  if (heldBy === undefined || heldBy.until > clock.now()) return;
  log.warn('run ends without its turn', { run_id: id, rule: heldBy.rule });
  throw notInTime(heldBy);
}

/** Records that a rule holds a run. Returns false if the run was cancelled, or if another process has it. */
async function hold(deps: Deps, lease: Lease, run: NewRun, { heldBy, hasPlace, alongside, settle }: Waiting) {
  const isHeld = await new WaitingRuns(deps, lease.workspaceId).hold({ ...run, heldBy, hasPlace }, lease, alongside);
  if (isHeld) await settle();
  return isHeld;
}

/** The lease of a process that did not work on its run. */
const unused = (lease: Lease): Lease => ({ ...lease, attempt: lease.attempt - 1, takenInTurn: 0 });
