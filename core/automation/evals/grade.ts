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
}

/**
 * Decides all asserts of a case. Returns undefined while a judge has not ended. Throws RATE_LIMITED if the workspace has to wait for the time
 * that checks take.
 */
export async function grade(deps: Deps, graded: Graded): Promise<SlotResult | undefined> {
  const { case: each, suite, agent, asker, ended } = graded;
  const { run } = ended;
  const cost = { latencyMs: run.durationMs, costUsd: costOf(run) };
  if (run.status !== 'completed') {
    // A model that was not reached, or a run that somebody cancelled, says nothing about the agent.
    const isUnknown =
      run.status === 'cancelled' ||
      (run.errorCode !== 'TIMEOUT' && run.errorCode !== null && isRetryable(run.errorCode));
    const reason = shortText(`the run failed with ${run.errorCode}: ${run.errorMessage}`);
    return { outcome: isUnknown ? 'error' : 'failed', score: 0, reason, asserts: [], ...cost };
  }
  const asserted = { asserts: each.asserts, vars: each.vars, judge: suite.judge, agent, asker, ended };
  const decided = await decide(deps, asserted);
  if (decided === undefined) return undefined;
  const { decisions } = decided;
  const asserts = each.asserts.map((assert, index): AssertOutcome => {
    const { result, judgeRunId } = decisions[index]!;
    return {
      type: nameOfAssert(assert),
      ...(assert.metric !== undefined && { metric: assert.metric }),
      ...result,
      ...(judgeRunId !== undefined && { judge_run_id: judgeRunId }),
    };
  });
  const error = decisions.find(({ unknown }) => unknown)?.result.reason;
  const costUsd = cost.costUsd === null || decided.costUsd === null ? null : cost.costUsd + decided.costUsd;
  return { ...sumOf(each, asserts, error), asserts, latencyMs: cost.latencyMs, costUsd };
}

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
