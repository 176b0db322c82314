import { isRetryable } from '#core/base/errors.ts';
import type { Suite } from '#core/manifest/evals/suite.ts';
import { nameOfAssert, shortText } from '#core/manifest/evals/suite.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { costOf, decide, weightedMean } from './decide.ts';
import type { AssertOutcome, SlotResult, StoredCase } from './eval.ts';
import type { Asker, EndedRun } from './run-once.ts';

/** A case whose run has ended. */
interface Graded {
  readonly case: StoredCase;
  readonly suite: Suite;
  readonly agent: AgentVersion;
  readonly asker: Asker;
  readonly ended: EndedRun;
  /** The id of its slot ({@link runIdOf}). */
  readonly slotId: string;
}

/** The result of a run, and what its judges cost; null if a price is not known. */
interface Grading {
  readonly result: SlotResult;
  readonly judgesUsd: number | null;
}

/**
 * Decides all asserts of a case. Returns undefined while a judge has not ended. Throws RATE_LIMITED if the workspace has to wait for the time
 * that checks take.
 */
export async function grade(deps: Deps, graded: Graded): Promise<Grading | undefined> {
  const { case: each, suite, agent, asker, ended, slotId } = graded;
  const { run } = ended;
  const cost = { latencyMs: run.durationMs, costUsd: costOf(run) };
  if (run.status !== 'completed') {
    // Nothing is known about the agent if the model was not reached, or if the run was cancelled.
    const isUnknown =
      run.status === 'cancelled' ||
      (run.errorCode !== 'TIMEOUT' && run.errorCode !== null && isRetryable(run.errorCode));
    const reason = shortText(`the run failed with ${run.errorCode}: ${run.errorMessage}`);
    const result: SlotResult = { outcome: isUnknown ? 'error' : 'failed', score: 0, reason, asserts: [], ...cost };
    return { result, judgesUsd: 0 };
  }
  const asserted = { asserts: each.asserts, vars: each.vars, judge: suite.judge, agent, asker, ended, slotId };
  const decided = await decide(deps, asserted);
  if (decided === undefined) return undefined;
  const { decisions, costUsd: judgesUsd } = decided;
  const asserts = each.asserts.map((assert, index): AssertOutcome => {
    const { result, judgeRunId } = decisions[index]!;
    return {
      type: nameOfAssert(assert),
      ...(assert.metric !== undefined && { metric: assert.metric }),
      ...result,
      // It is only a number in the results.
      ...(assert.weight === 0 && { pass: true }),
      ...(judgeRunId !== undefined && { judge_run_id: judgeRunId }),
    };
  });
  const error = decisions.find(({ unknown }) => unknown)?.result.reason;
  const costUsd = sumOfPrices(cost.costUsd, judgesUsd);
  return { result: { ...sumOf(each, asserts, error), asserts, latencyMs: cost.latencyMs, costUsd }, judgesUsd };
}

/** Returns null if a price is not known. */
const sumOfPrices = (a: number | null, b: number | null): number | null => (a === null || b === null ? null : a + b);

/** The score is the weighted mean. All asserts must pass, or the mean must reach the threshold if the case has one. */
function sumOf(
  { asserts: wanted, threshold }: StoredCase,
  asserts: readonly AssertOutcome[],
  error: string | undefined,
): Pick<SlotResult, 'outcome' | 'score' | 'reason'> {
  const parts = asserts.map((each, index) => ({ score: each.score, weight: wanted[index]!.weight }));
  const score = wanted.length === 0 ? 1 : weightedMean(parts);
  if (error !== undefined) return { outcome: 'error', score, reason: shortText(error) };
  const wrong = asserts.find((each) => !each.pass);
  const passes = threshold === undefined ? wrong === undefined : score >= threshold;
  if (passes) return { outcome: 'passed', score, reason: null };
  const why =
    threshold === undefined
      ? `${wrong!.type}: ${wrong!.reason}`
      : `the score ${score.toFixed(2)} is less than ${threshold}`;
  return { outcome: 'failed', score, reason: shortText(why) };
}
