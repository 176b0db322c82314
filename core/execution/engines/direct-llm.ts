import { isPlatformError, PlatformError } from '#core/base/errors.ts';
import { lazy } from '#core/base/lazy.ts';
import type { LlmMessage, LlmRequest } from '#core/ports/llm.ts';
import { type AdaptiveAnswer, AdaptiveModels } from './adaptive-request.ts';
import type { EngineResult, EngineRun, SessionOfRun } from './engine.ts';
import { type AskDeps, ModelCalls } from './model-calls.ts';
import { correctionOf, isBetter, isRepairable, repairDeadline, tracedProblems } from './output-repair.ts';
import { constrainsShape, objectSchema } from './output-schema.ts';
import { type PromptMessage, renderPrompt } from './prompt.ts';
import { promptCacheOf } from './repeated-prompts.ts';
import { type ReadReply, readReply } from './reply.ts';
import { stopSignal } from './stop-signal.ts';

/**
 * Runs a prompt agent: one message to a model, its reply as JSON (`docs/interface/prompts.md`). If the answer does not
 * match
 * the agent's schema, the model is asked once more. Throws MISSING_INPUT_FIELDS; other failures are in the result, with
 * the
 * spending so far.
 */
export async function runPrompt(deps: AskDeps, run: EngineRun): Promise<EngineResult> {
  const startedAt = deps.clock.now();
  const message = renderPrompt(run.skills, run.agent.definition.prompt ?? '', run.input.document, run.promptFiles);
  const stop = stopSignal(deps.clock, run, 'The model had not answered');
  const calls = new ModelCalls(deps, run);
  const messages = run.session === undefined ? [message] : await conversationOf(run.session, message);
  const said = run.session && { said: run.mask.text(message.text) };
  const prompt = new Prompt(deps, run, calls, message, messages);
  try {
    const { data, warnings, dataProblems } = await prompt.answer(startedAt, stop.signal);
    const output = { data, warnings, ...said, ...(dataProblems && { dataProblems }) };
    const result = withoutProgram({ ...output, ...calls.spending }, deps.clock.now() - startedAt);
    run.emit({ type: 'done', usage: result.usage, execution_time_ms: result.executionMs });
    return result;
  } catch (cause) {
    const error = stop.signal.aborted ? stop.signal.reason : cause;
    if (!isPlatformError(error)) throw error;
    const failed = new PlatformError(error.code, run.mask.text(error.message), error.extra);
    const { model, ...spent } = calls.spending;
    const hasSpent = spent.usage.input_tokens > 0;
    return withoutProgram({ warnings: [], error: failed, model, ...(hasSpent && spent) }, deps.clock.now() - startedAt);
  } finally {
    stop.release();
  }
}

/** Loaded lazily: few prompts belong to a session, and smaller functions start faster. */
const earlierTurns = lazy(() => import('./earlier-turns.ts'));

async function conversationOf(session: SessionOfRun, message: PromptMessage): Promise<readonly LlmMessage[]> {
  const { withEarlierTurns } = await earlierTurns();
  return withEarlierTurns(session, message);
}

type ModelOutcome = Omit<EngineResult, 'stdout' | 'stderr' | 'exitCode' | 'executionMs'>;

const withoutProgram = (outcome: ModelOutcome, executionMs: number): EngineResult => ({
  stdout: '',
  stderr: '',
  exitCode: null,
  executionMs,
  ...outcome,
});

type Asked = Pick<LlmRequest, 'json' | 'outputSchema' | 'cache'>;

class Prompt {
  readonly #deps: AskDeps;
  readonly #run: EngineRun;
  readonly #roomy: AdaptiveModels;
  /** The earlier turns of its session, and its message. */
  readonly #messages: readonly LlmMessage[];
  /** Parts that are the same in every request of the run. */
  readonly #asked: Asked;

  constructor(
    deps: AskDeps,
    run: EngineRun,
    calls: ModelCalls,
    message: PromptMessage,
    messages: readonly LlmMessage[],
  ) {
    this.#deps = deps;
    this.#run = run;
    this.#roomy = new AdaptiveModels(deps, run, calls);
    this.#messages = messages;
    const cache = promptCacheOf(deps.clock, run, message);
    this.#asked = { ...formOf(run, message), cache: messages.length > 1 ? { ...cache, again: 'conversation' } : cache };
  }

  async answer(startedAt: number, signal: AbortSignal): Promise<ReadReply> {
    const question = { ...this.#asked, messages: this.#messages };
    const asked = await this.#roomy.ask(this.#run.models, () => question, { signal });
    const first = await readReply(this.#run, asked.answer);
    const deadline = repairDeadline(this.#run, startedAt, this.#deps.clock.now());
    if (!isRepairable(first) || deadline === undefined) return first;
    const second = await this.#corrected(asked, first, deadline);
    const { provider, model } = asked.choice;
    this.#run.trace.add({
      event_type: 'output_repair',
      payload: { problems: tracedProblems(first, this.#run.mask), ok: second?.dataProblems?.length === 0 },
      provider,
      model,
    });
    return second !== undefined && isBetter(second, first) ? second : first;
  }

  /** Asks for a corrected answer. Returns `undefined` if the provider fails, in which case the first answer is used. */
  async #corrected(
    { choice, answer }: AdaptiveAnswer,
    first: ReadReply,
    deadline: number,
  ): Promise<ReadReply | undefined> {
    const { emit, signal } = this.#run;
    emit({ type: 'retry', turn: 1, attempt: 2, reason: 'VALIDATION_SKIPPED', wait_ms: 0, discard_text: true });
    const messages: LlmMessage[] = [...this.#messages, answer.message, { role: 'user', text: correctionOf(first) }];
    const stop = stopSignal(this.#deps.clock, { deadline, signal }, 'The model had not corrected its answer');
    try {
      const question = { ...this.#asked, messages };
      const asked = await this.#roomy.ask([choice], () => question, { signal: stop.signal, isUnseen: true });
      return await readReply(this.#run, asked.answer);
    } catch (error) {
      signal.throwIfAborted();
      if (!stop.signal.aborted && !isPlatformError(error)) throw error;
      return undefined;
    } finally {
      stop.release();
    }
  }
}

/**
 * Chooses the answer's form. A schema without constraints leaves it to the prompt: JSON mode then needs objects and the
 * word "JSON".
 */
function formOf({ agent }: EngineRun, { shared = '', text }: PromptMessage): Omit<Asked, 'cache'> {
  const schema = agent.definition.output_schema;
  if (schema === null) return {};
  if (constrainsShape(schema)) return { outputSchema: objectSchema(schema) };
  return { json: (schema.type ?? 'object') === 'object' && (/json/i.test(text) || /json/i.test(shared)) };
}
