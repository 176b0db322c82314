import { chargeIfRejected } from '#core/accounts/limits/cpu-budget.ts';
import { PlatformError } from '#core/base/errors.ts';
import { planOf } from '#core/base/plans.ts';
import type { Deps } from '#core/ports/deps.ts';
import { checkSpace } from '#core/ports/space.ts';
import type { TransactOperation } from '#core/ports/table.ts';
import { type Lease, laterLease } from '#core/runs/leases.ts';
import type { NewRun } from '#core/runs/run.ts';
import { WaitingRuns } from '#core/runs/waiting-runs.ts';
import { recordOf } from '../calls/admit.ts';
import { type Call, type PreparedCall, prepareCall } from '../calls/prepare.ts';
import { type BeginJournal, putBeginning } from './durable-run.ts';
import { endOrder, orderedUntil } from './order.ts';

/**
 * Checks a call that begins later, as far as that is possible now, and stores it. Its run waits as `queued`; it holds no
 * place and counts when it begins. Throws what `prepareCall` throws, and RATE_LIMITED if too many runs wait.
 */
export async function queueCall(deps: Deps, call: Call & { readonly runAt: number }): Promise<void> {
  const { workspace, runId, runAt } = call;
  await checkSpace(deps);
  const prepared = await chargeIfRejected(deps, workspace, () => prepareCall(deps, { ...call, receivedAt: runAt }));
  const lease = laterLease(deps, { workspaceId: workspace.id, runId }, runAt);
  await storeWaiting(deps, call, prepared, { record: { runAt }, lease });
}

/**
 * Stores a call whose run waits.
 *
 * @param alongside Writes of the rule for which it waits.
 * @param beginJournal For a durable run that begins with the journal of another one.
 */
export async function storeWaiting(
  deps: Deps,
  call: Call,
  prepared: PreparedCall,
  {
    record: waits,
    lease,
    alongside,
    beginJournal,
  }: {
    readonly record: Pick<NewRun, 'runAt' | 'heldBy' | 'hasPlace'>;
    readonly lease: Lease;
    readonly alongside?: readonly TransactOperation[];
    readonly beginJournal?: BeginJournal | undefined;
  },
): Promise<void> {
  const { workspace, runId } = call;
  const { name, waiting_runs: max } = planOf(deps, workspace);
  const waiting = new WaitingRuns(deps, workspace.id);
  const tooMany = () =>
    new PlatformError(
      'RATE_LIMITED',
      `The workspace "${workspace.slug}" has ${max} runs that wait for their time, the maximum of its plan "${name}".`,
      { hint: 'Cancel one of them, or call again when one has begun.' },
    );
  // Checked again when the run is recorded: before, nothing is stored for a call that is refused.
  if ((await waiting.count()) >= max) throw tooMany();
  await putBeginning(deps, call, { until: orderedUntil(prepared), beginJournal });
  const { context: _, ...record } = { ...recordOf(prepared), startedAt: call.receivedAt, ...waits };
  const queue = async (run: NewRun): Promise<boolean> => {
    const queued = await waiting.queue(run, lease, { max, alongside });
    if (queued === 'taken') return false;
    if (!queued) throw tooMany();
    return true;
  };
  try {
    if (call.session === undefined) await queue(record);
    // Loaded lazily: few calls belong to a session, and smaller functions start faster.
    else await (await import('../sessions/begin-turn.ts')).inNextTurn(deps, prepared, record, queue);
  } catch (error) {
    await endOrder(deps, workspace.id, runId);
    throw error;
  }
}
