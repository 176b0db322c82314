import type { Json } from '#core/base/json.ts';
import { parseJsonValue } from '#core/base/json.ts';
import {
  type AssertResult,
  isDecidedElsewhere,
  partOf,
  plainOutput,
  type RunFacts,
} from '#core/manifest/evals/check-output.ts';
import { type Assert, type EvalCase, type Judge, rowOfAssert, shortText } from '#core/manifest/evals/suite.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { checkEvalOutput } from '#core/manifest/worker-pool/checks.ts';
import type { Deps } from '#core/ports/deps.ts';
import { RunStore } from '#core/runs/store.ts';
import { judge } from './judge.ts';
import type { Asker, EndedRun } from './run-once.ts';
import { runScripts } from './scripts.ts';

/** The asserts about a completed run. */
export interface Asserted {
  readonly asserts: readonly Assert[];
  /** The input of the run, as programs and judges see it. */
  readonly vars: EvalCase['vars'];
  /** Required by `llm-rubric`. */
  readonly judge: Judge | null;
  readonly agent: AgentVersion;
  readonly asker: Asker;
  readonly ended: EndedRun;
  /** From which the ids of the runs of judges follow. */
  readonly slotId: string;
}

/** What became of one assert. With `unknown`, nothing is known about the output, and the result says why. */
export interface Decision {
  readonly result: AssertResult;
  readonly unknown?: true;
  /** The run of its judge. */
  readonly judgeRunId?: string;
}

/** The decisions in the order of the asserts. `costUsd`: of the judges; null if a price is not known. */
export interface Decided {
  readonly decisions: readonly Decision[];
  readonly costUsd: number | null;
}

/** What keeps a judge from deciding, in words. */
interface JudgeRules {
  /** Returns why the next judge is not asked. @default - it is */
  readonly refusal?: () => string | undefined;
  /** Returns why an error leaves an assert undecided. @default - it is thrown */
  readonly failure?: (error: unknown) => string | undefined;
}

/**
 * Decides asserts. Returns undefined while a judge has not ended. Throws RATE_LIMITED if the workspace has to wait for the time that checks take,
 * and what a judge throws that cannot be asked.
 */
export async function decide(
  deps: Deps,
  asserted: Asserted,
  { refusal, failure }: JudgeRules = {},
): Promise<Decided | undefined> {
  const { asserts, agent, asker, vars } = asserted;
  const facts = await factsOf(deps, asserted);
  const found = new Map<Assert, Decision>();
  const here = asserts.filter((assert) => !isDecidedElsewhere(assert));
  const checked = await checkEvalOutput(deps, asker.workspace, here, facts);
  for (const [index, assert] of here.entries()) found.set(assert, { result: checked[index]! });
  await decideByProgram(deps, asserted, facts, found);

  let costUsd: number | null = 0;
  for (const [index, assert] of asserts.entries()) {
    if (found.has(assert)) continue;
    const part = partOf(assert, facts.output);
    if (part === undefined) {
      found.set(assert, { result: nothingAt(assert) });
      continue;
    }
    const judged = { asker, agent, judge: asserted.judge! };
    const about = { assert, input: vars, part, slotId: asserted.slotId };
    const refused = refusal?.();
    const judgement =
      refused === undefined
        ? await judge(deps, judged, about, index).catch((error: unknown) => {
            const why = failure?.(error);
            if (why === undefined) throw error;
            return { why };
          })
        : { why: refused };
    if (judgement === 'pending') return undefined;
    if ('why' in judgement) {
      found.set(assert, { result: undecided(judgement.why), unknown: true });
      continue;
    }
    costUsd = costUsd === null || judgement.costUsd === null ? null : costUsd + judgement.costUsd;
    const { runId: judgeRunId } = judgement;
    if ('result' in judgement) found.set(assert, { result: judgement.result, judgeRunId });
    else found.set(assert, { result: undecided(judgement.error), unknown: true, judgeRunId });
  }
  return { decisions: asserts.map((assert) => found.get(assert)!), costUsd };
}

const nothingAt = ({ path }: Assert): AssertResult => ({
  pass: false,
  score: 0,
  reason: `the output has nothing at ${path}`,
});
const undecided = (why: string): AssertResult => ({ pass: false, score: 0, reason: shortText(why) });

/** The weighted mean of scores; 0 if no weight counts. */
export function weightedMean(parts: readonly { readonly score: number; readonly weight: number }[]): number {
  const weight = parts.reduce((sum, each) => sum + each.weight, 0);
  return weight === 0 ? 0 : parts.reduce((sum, each) => sum + each.score * each.weight, 0) / weight;
}

async function decideByProgram(
  deps: Deps,
  { asserts, asker, vars }: Asserted,
  facts: RunFacts,
  found: Map<Assert, Decision>,
): Promise<void> {
  const programs = asserts
    .filter(({ type }) => rowOfAssert(type).by === 'program')
    .flatMap((assert) => {
      const part = partOf(assert, facts.output);
      if (part !== undefined) return [{ assert, part }];
      found.set(assert, { result: nothingAt(assert) });
      return [];
    });
  const { costUsd, latencyMs } = facts;
  const results = await runScripts(deps, asker.workspace.id, programs, {
    output: plainOutput(facts.output),
    vars: vars as Json,
    costUsd,
    latencyMs,
  });
  for (const [index, { assert }] of programs.entries()) found.set(assert, { result: results[index]! });
}

async function factsOf(deps: Deps, { asserts, ended: { run, body } }: Asserted): Promise<RunFacts> {
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
    costUsd: costOf(run),
    latencyMs: run.durationMs ?? 0,
    tools,
    turns: body.trace.filter(({ event_type }) => event_type === 'llm_call_succeeded').length,
  };
}

/** What a run cost in US dollars; null if a price is not known. */
export const costOf = ({ costUsd, llmModel }: EndedRun['run']): number | null =>
  costUsd ?? (llmModel === null ? 0 : null);
