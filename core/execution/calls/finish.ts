import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { MICRO_PER_CENT } from '#core/billing/budgets/policy.ts';
import { computeMicro } from '#core/billing/budgets/spend.ts';
import { traitsOf } from '#core/manifest/engines.ts';
import type { Deps } from '#core/ports/deps.ts';
import { nextTryAt } from '#core/runs/retries.ts';
import { endedWith, type NewRun, type RunResult } from '#core/runs/run.ts';
import { RunContinuesError } from '#core/runs/run-continues.ts';
import { RunStore } from '#core/runs/store.ts';
import type { Trace } from '#core/runs/trace/trace.ts';
import { costTotals } from '#core/runs/usage/costs.ts';
import { withEarlierTries } from '#core/runs/usage/earlier-tries.ts';
import { type Spending, spentMembers } from '#core/runs/usage/spending.ts';
import type { EngineResult, Warning } from '../engines/engine.ts';
import { countSpend } from '../sub-calls/budget.ts';
import type { Admitted } from './admit.ts';
import { isEndedByCaller } from './charge.ts';
import type { PreparedCall } from './prepare.ts';
import { checkOutput } from './schema-checks.ts';

export interface CallAnswer {
  readonly data: Json;
  readonly warnings: readonly Warning[];
  readonly executionMs: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly usage?: Spending['usage'];
}

/**
 * Records the end of a run, from which its usage follows, releases the lease, then settles or refunds the credits. Throws the run's error if it failed, and {@link RunContinuesError} if it is tried again.
 */
export async function finishCall(
  deps: Deps,
  call: PreparedCall,
  admitted: Admitted,
  {
    result,
    trace,
    isShown,
    onSuccess,
  }: {
    readonly result: EngineResult;
    readonly trace: Trace;
    /** Whether any output was visible before the run's end. */
    readonly isShown: boolean;
    readonly onSuccess?: (() => Promise<void>) | undefined;
  },
): Promise<CallAnswer> {
  const { agent, workspace, inputWarnings, lineage } = call;
  const runs = new RunStore(deps, workspace.id);
  const output = result.data ?? null;
  const { record, payment, releaseLease, releasePlaces, forget } = admitted;
  const isCompleted = result.error === undefined;
  // Otherwise callers could read a complete answer and cancel before the end.
  const isCharged =
    isCompleted || (isShown && payment.cents > 0 && (await isEndedByCaller(deps, call, record, result.error)));
  // Counted before the record is written: if the process dies in between, the money was still spent.
  await countSpend(deps, lineage.budgets, spentBy(deps, admitted, result, isCharged)).catch((error: unknown) =>
    deps.log.error('spend of a sub-call not counted', { run_id: record.id, error: String(error) }),
  );
  const hasContent = await keepContent(deps, runs, record.id, trace.contentFor({ isFailed: !isCompleted }));
  const recorded: RunResult = {
    ...endOf(result),
    input: record.input,
    output,
    trace: trace.events,
    hasContent,
    creditsCents: isCharged ? payment.cents : 0,
    cancelledCreditsCents: isShown ? payment.cents : 0,
  };
  // The price stays charged: it is one of the run, whatever the number of its tries.
  if (!isCharged && (await waitsForNextTry(deps, call, admitted, recorded))) {
    await releasePlaces();
    throw new RunContinuesError(record.id, 'retry');
  }
  await admitted
    .commitSpent(budgetedCost(deps, record, recorded))
    .catch((error: unknown) =>
      deps.log.error('cost of a run not counted in budgets', { run_id: record.id, error: String(error) }),
    );
  const isRecorded = await runs.finish(record, recorded);
  const isSuccess = isCompleted && isRecorded;
  // If the end could not be recorded, the lease stays and leads the sweep to the run.
  try {
    await Promise.all([releaseLease(), forget(), isSuccess && onSuccess?.()]);
  } finally {
    await payment.end(isRecorded ? isCharged : isShown && (await runs.isCancelled(record.id)));
  }
  if (record.isAnnounced) {
    // Loaded lazily, as below: few workspaces have destinations or budgets, and smaller functions start faster.
    const { announceEnd } = await import('#core/runs/destinations/announce.ts');
    void deps.background(announceEnd(deps, { workspaceId: workspace.id, runId: record.id }));
  }
  if (workspace.budgets) {
    const { afterRun } = await import('#core/billing/budgets/watch.ts');
    void deps.background(afterRun(deps, workspace.id));
  }
  if (result.error?.code === 'LLM_ERROR') deps.log.warn('model provider failed', { run_id: record.id });
  if (!isRecorded) throw await recordedError(runs, record.id);
  if (result.error) throw result.error;
  const { executionMs, stdout, stderr, usage } = result;
  const warnings = [...inputWarnings, ...result.warnings, ...(await checkOutput(deps, workspace, agent, result))];
  return { data: output, warnings, executionMs, stdout, stderr, usage };
}

/** Records that a run which failed waits for its next try. Returns false if there is none. */
async function waitsForNextTry(
  deps: Deps,
  { wantedDeadline = Number.POSITIVE_INFINITY, workspace }: PreparedCall,
  { record, durable }: Admitted,
  result: RunResult,
): Promise<boolean> {
  const nextAt = nextTryAt(record.retries, result, deps.clock.now());
  if (nextAt === undefined || nextAt >= wantedDeadline) return false;
  durable?.rest();
  // Loaded lazily: few runs are tried again, and smaller functions start faster.
  const [{ WaitingRuns }, { laterLease }] = await Promise.all([
    import('#core/runs/waiting-runs.ts'),
    import('#core/runs/leases.ts'),
  ]);
  const lease = durable?.lease ?? laterLease(deps, { workspaceId: workspace.id, runId: record.id }, nextAt);
  const isWaiting = await new WaitingRuns(deps, workspace.id).retry(record, result, { nextAt, lease });
  if (isWaiting) deps.log.warn('run failed and is tried again', { run_id: record.id, code: result.errorCode });
  return isWaiting;
}

/** Stores the trace contents. Returns false on failure, which does not fail the run. */
async function keepContent(
  { log }: Pick<Deps, 'log'>,
  runs: RunStore,
  runId: string,
  text: string | undefined,
): Promise<true | undefined> {
  if (text === undefined) return undefined;
  try {
    await runs.putContent(runId, text);
    return true;
  } catch (error) {
    log.error('what was said in a run is not kept', { run_id: runId, error: String(error) });
    return undefined;
  }
}

/**
 * Returns the cost of a run since its price was counted, in millionths of a US dollar; negative if the price is
 * refunded.
 */
function spentBy(
  deps: Deps,
  { record, payment }: Admitted,
  { costs, executionMs }: EngineResult,
  isCharged: boolean,
): number {
  const compute = traitsOf(record.engine).hasSandbox ? computeMicro(deps, executionMs) : 0;
  const refunded = isCharged ? 0 : payment.cents * MICRO_PER_CENT;
  return costTotals({ costs }).model_microusd + compute - refunded;
}

/** Returns what a run counts for in budgets, in millionths of a US dollar. */
function budgetedCost(deps: Deps, record: NewRun, recorded: RunResult): number {
  const { costs, executionMs, creditsCents } = withEarlierTries(record, recorded);
  const compute = traitsOf(record.engine).hasSandbox ? computeMicro(deps, executionMs ?? 0) : 0;
  return Math.round(costTotals({ ...(costs && { costs }) }).model_microusd + compute + creditsCents * MICRO_PER_CENT);
}

const endOf = (
  result: EngineResult,
): Omit<RunResult, 'input' | 'output' | 'trace' | 'hasContent' | 'creditsCents' | 'cancelledCreditsCents'> => ({
  ...endedWith(result.error),
  stdout: result.stdout,
  stderr: result.stderr,
  exitCode: result.exitCode,
  ...(result.said !== undefined && { said: result.said }),
  ...(result.state && { state: result.state }),
  executionMs: result.executionMs,
  ...spentMembers(result),
});

/** Returns the error of a run that another process has recorded as lost. */
async function recordedError(runs: RunStore, runId: string): Promise<PlatformError> {
  const { errorCode, errorMessage } = (await runs.find(runId)) ?? {};
  return new PlatformError(errorCode ?? 'INTERNAL_ERROR', errorMessage ?? 'The run was lost.');
}
