import type { Caller } from '#core/base/caller.ts';
import { isRetryable } from '#core/base/errors.ts';
import { type Json, parseJsonValue } from '#core/base/json.ts';
import {
  type AssertResult,
  isDecidedElsewhere,
  partOf,
  plainOutput,
  type RunFacts,
} from '#core/manifest/evals/check-output.ts';
import type { Suite } from '#core/manifest/evals/suite.ts';
import { type Assert, nameOfAssert, rowOfAssert, shortText } from '#core/manifest/evals/suite.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { checkEvalOutput } from '#core/manifest/worker-pool/checks.ts';
import type { Deps } from '#core/ports/deps.ts';
import { RunStore } from '#core/runs/store.ts';
import type { AssertOutcome, SlotResult, StoredCase } from './eval.ts';
import { judge } from './judge.ts';
import type { EndedRun } from './run-once.ts';
import { runScripts } from './scripts.ts';

/** A case whose run has ended. */
interface Graded {
  readonly case: StoredCase;
  readonly suite: Suite;
  readonly agent: AgentVersion;
  readonly caller: Caller;
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
  const { case: each, ended } = graded;
  const { run } = ended;
  const cost = { latencyMs: run.durationMs, costUsd: run.costUsd ?? (run.llmModel === null ? 0 : null) };
  if (run.status !== 'completed') {
    // A model that was not reached, or a run that somebody cancelled, says nothing about the agent.
    const isUnknown =
      run.status === 'cancelled' ||
      (run.errorCode !== 'TIMEOUT' && run.errorCode !== null && isRetryable(run.errorCode));
    const reason = shortText(`the run failed with ${run.errorCode}: ${run.errorMessage}`);
    const result: SlotResult = { outcome: isUnknown ? 'error' : 'failed', score: 0, reason, asserts: [], ...cost };
    return { result, judgesUsd: 0 };
  }
  const facts = await factsOf(deps, each, ended);
  const found = new Map<Assert, AssertResult>();
  const here = each.asserts.filter((assert) => !isDecidedElsewhere(assert));
  const checked = await checkEvalOutput(deps, graded.caller.workspace, here, facts);
  for (const [index, assert] of here.entries()) found.set(assert, checked[index]!);
  await decideByProgram(deps, graded, facts, found);

  let judgesUsd: number | null = 0;
  let error: string | undefined;
  const judges = new Map<Assert, string>();
  for (const [index, assert] of each.asserts.entries()) {
    if (found.has(assert)) continue;
    const part = partOf(assert, facts.output);
    if (part === undefined) {
      found.set(assert, { pass: false, score: 0, reason: `the output has nothing at ${assert.path}` });
      continue;
    }
    const judged = { caller: graded.caller, agent: graded.agent, judge: graded.suite.judge! };
    const judgement = await judge(deps, judged, { assert, input: each.vars, part, slotId: graded.slotId }, index);
    if (judgement === 'pending') return undefined;
    judgesUsd = sumOfPrices(judgesUsd, judgement.costUsd);
    judges.set(assert, judgement.runId);
    if ('result' in judgement) found.set(assert, judgement.result);
    else {
      error ??= judgement.error;
      found.set(assert, { pass: false, score: 0, reason: shortText(judgement.error) });
    }
  }
  const asserts = each.asserts.map((assert): AssertOutcome => {
    const judgeRunId = judges.get(assert);
    return {
      type: nameOfAssert(assert),
      ...(assert.metric !== undefined && { metric: assert.metric }),
      ...found.get(assert)!,
      // It is only a number in the results.
      ...(assert.weight === 0 && { pass: true }),
      ...(judgeRunId !== undefined && { judge_run_id: judgeRunId }),
    };
  });
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
  const weight = wanted.reduce((sum, each) => sum + each.weight, 0);
  const total = asserts.reduce((sum, each, index) => sum + each.score * wanted[index]!.weight, 0);
  const score = wanted.length === 0 ? 1 : weight === 0 ? 0 : total / weight;
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

async function decideByProgram(
  deps: Deps,
  { case: each, caller }: Graded,
  facts: RunFacts,
  found: Map<Assert, AssertResult>,
): Promise<void> {
  const programs = each.asserts
    .filter(({ type }) => type === 'javascript' || type === 'python')
    .flatMap((assert) => {
      const part = partOf(assert, facts.output);
      if (part !== undefined) return [{ assert, part }];
      found.set(assert, { pass: false, score: 0, reason: `the output has nothing at ${assert.path}` });
      return [];
    });
  const { costUsd, latencyMs } = facts;
  const results = await runScripts(deps, caller.workspace.id, programs, {
    output: plainOutput(facts.output),
    vars: each.vars as Json,
    costUsd,
    latencyMs,
  });
  for (const [index, { assert }] of programs.entries()) found.set(assert, results[index]!);
}

async function factsOf(deps: Deps, { asserts }: StoredCase, { run, body }: EndedRun): Promise<RunFacts> {
  const readsTrace = asserts.some(({ type }) => rowOfAssert(type).readsTrace);
  const contents =
    readsTrace && body.hasContent === true ? await new RunStore(deps, run.workspaceId).content(run.id) : {};
  const tools = body.trace.flatMap(({ event_type, payload }, index) => {
    if (event_type !== 'tool_call_started') return [];
    const text = contents[index]?.arguments?.text;
    const args = text === undefined ? undefined : parseJsonValue(text);
    return [{ name: String(payload?.tool_name), ...(args !== undefined && { args }) }];
  });
  return {
    output: body.output,
    costUsd: run.costUsd ?? (run.llmModel === null ? 0 : null),
    latencyMs: run.durationMs ?? 0,
    tools,
    turns: body.trace.filter(({ event_type }) => event_type === 'llm_call_succeeded').length,
  };
}
