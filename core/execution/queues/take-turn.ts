import type { Deps } from '#core/ports/deps.ts';
import { giveBackLease, type Lease } from '#core/runs/leases.ts';
import { latestRun } from '#core/runs/queues/latest.ts';
import { takePlace } from '#core/runs/queues/queue.ts';
import { nextStart, takeStart, windowAt } from '#core/runs/queues/starts.ts';
import type { NewRun } from '#core/runs/run.ts';
import { WaitingRuns } from '#core/runs/waiting-runs.ts';
import type { PreparedCall } from '../calls/prepare.ts';
import { aboveRate, rejected, replaced, type TurnOfCall } from './turn.ts';
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
    const held = { ...waiting, queueId: concurrency?.queueId, heldBy: how.heldBy, hasPlace: how.hasPlace };
    if (await new WaitingRuns(deps, lease.workspaceId).hold(held, lease, how.alongside)) await how.settle();
    return false;
  };
  if (debounce !== undefined && heldBy?.rule === 'debounce') {
    const latest = await latestRun(deps, debounce);
    if (latest !== undefined && latest !== runId) throw replaced(latest);
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
