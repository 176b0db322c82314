import { PlatformError } from '#core/base/errors.ts';
import { isJsonObject, type Json, parseJsonValue } from '#core/base/json.ts';
import type { AssertResult } from '#core/manifest/evals/check-output.ts';
import { type Assert, type EvalCase, type Judge, shortText } from '#core/manifest/evals/suite.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { modelNamed } from '#core/models/named-model.ts';
import type { Deps } from '#core/ports/deps.ts';
import { JUDGE_ATTEMPTS, judgeRunIdOf } from './eval.ts';
import { agentNamed, providerOf } from './judge-by.ts';
import { ASK_AGAIN, JUDGE_PROMPT } from './judge-prompt.ts';
import { type Asker, type EndedRun, runOnce } from './run-once.ts';

/** Characters of an output that a judge sees: more costs much, and hides the rubric. */
const MAX_JUDGED_CHARACTERS = 50_000;
const JUDGE_SECONDS = 120;

/** Endpoint in the records of the runs of judges by a model, which are runs of the judged version. */
export const JUDGE_ENDPOINT = 'judge';

/** A judge decided, could not, or has not ended. `costUsd` is null if a price is not known. */
export type Judgement =
  | { readonly result: AssertResult; readonly costUsd: number | null; readonly runId: string }
  | { readonly error: string; readonly costUsd: number | null; readonly runId: string }
  | 'pending';

/** Whom a judge is asked as. */
interface Judged {
  readonly asker: Asker;
  /** The judged version. */
  readonly agent: AgentVersion;
  readonly judge: Judge;
}

/** Asks a judge about an output, and once more if the answer is not the object that is asked for. */
export async function judge(
  deps: Deps,
  { asker, agent, judge: by }: Judged,
  { assert, input, part, slotId }: { assert: Assert; input: EvalCase['vars']; part: Json; slotId: string },
  number: number,
): Promise<Judgement> {
  const judging = await judgingAgent(deps, asker, agent, by);
  const text = typeof part === 'string' ? part : JSON.stringify(part);
  const output = text.length > MAX_JUDGED_CHARACTERS ? `${text.slice(0, MAX_JUDGED_CHARACTERS)} [cut]` : part;
  const document = { rubric: String(assert.value), input: input as Json, output };
  let costUsd: number | null = 0;
  for (const attempt of JUDGE_ATTEMPTS) {
    const runId = judgeRunIdOf(slotId, number, attempt);
    const ended: EndedRun | undefined = await runOnce(deps, {
      agent: judging,
      endpoint: 'model' in by ? JUDGE_ENDPOINT : judging.definition.default_endpoint,
      document: attempt === 1 ? document : { ...document, again: ASK_AGAIN },
      asker,
      runId,
    });
    if (ended === undefined) return 'pending';
    const { run, body } = ended;
    costUsd = costUsd === null || run.costUsd === null ? null : costUsd + run.costUsd;
    if (run.status !== 'completed') {
      return { error: `the judge failed with ${run.errorCode}: ${run.errorMessage}`, costUsd, runId };
    }
    const verdict = readVerdict(body.output);
    if (verdict !== undefined) return { result: resultOf(assert, verdict), costUsd, runId };
    if (attempt === 2) return { error: 'the judge answered no JSON', costUsd, runId };
  }
  throw new Error('not reached: the second attempt returns');
}

interface JudgeVerdict {
  readonly reason: string;
  readonly score: number;
  readonly pass: boolean;
}

/** Reads the answer of a judge: `{reason, score, pass}`, alone or within other text. Undefined for anything else. */
export function readVerdict(output: Json): JudgeVerdict | undefined {
  const found = isJsonObject(output) && typeof output.result === 'string' ? objectIn(output.result) : output;
  if (!isJsonObject(found)) return undefined;
  const { reason, score, pass } = found;
  const isScore = typeof score === 'number' && score >= 0 && score <= 1;
  return typeof reason === 'string' && isScore && typeof pass === 'boolean' ? { reason, score, pass } : undefined;
}

const objectIn = (text: string): Json | undefined =>
  parseJsonValue(text.slice(Math.max(0, text.indexOf('{')), text.lastIndexOf('}') + 1));

/** Decides as promptfoo does: a threshold asks for a score besides the judge's own word. */
function resultOf({ threshold, isNot }: Assert, { reason, score, pass }: JudgeVerdict): AssertResult {
  const isMet = pass && (threshold === undefined || score >= threshold);
  const isLow = pass && !isMet;
  const text = isLow ? `score ${score} is less than ${threshold}: ${reason}` : reason;
  return { pass: isMet !== isNot, score: isNot ? 1 - score : score, reason: shortText(text) };
}

async function judgingAgent(deps: Deps, asker: Asker, agent: AgentVersion, by: Judge): Promise<AgentVersion> {
  if ('model' in by) return modelJudge(agent, providerOf(deps.config, by.model, 'judge.model'));
  const found = await agentNamed(deps, asker, by.agent);
  if (found === undefined) throw new PlatformError('NOT_FOUND', `There is no agent ${by.agent} any more.`);
  return found;
}

/**
 * The judged version with the judge's prompt in the place of its own, so that budgets, secrets, usage, retention and erasure treat the judge as
 * they treat the agent.
 */
function modelJudge(agent: AgentVersion, { provider, model }: ReturnType<typeof modelNamed>): AgentVersion {
  const { name, description, tags, is_public, callable } = agent.definition;
  return {
    ...agent,
    definition: {
      ...{ name, description, tags, is_public, callable },
      type: 'prompt',
      run_mode: 'on_demand',
      execution_engine: 'direct_llm',
      prompt: JUDGE_PROMPT,
      runtime: null,
      loop: null,
      custom_tools: [],
      input_schema: null,
      output_schema: null,
      supported_providers: [provider],
      default_models: { [provider]: model },
      default_endpoint: JUDGE_ENDPOINT,
      timeout_seconds: JUDGE_SECONDS,
      model_settings: { temperature: 0 },
      default_skills: [],
      skills_locked: true,
      required_secrets: [],
      optional_secrets: [],
      entrypoint: null,
      source_url: null,
      pip_package: null,
      run_command: null,
      url: null,
      bundle: null,
      manifest: null,
      skill_files: [],
      allow_local_download: false,
      environment: null,
      model_tasks: null,
      sdk_compatible: false,
      price_per_call_cents: null,
    },
  };
}
