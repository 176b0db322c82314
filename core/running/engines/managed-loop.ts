import { isPlatformError, PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import { PROVIDER_NAMES } from '#core/models/providers.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { LlmAnswer, LlmMessage, LlmTool, LlmToolCall } from '#core/ports/llm.ts';
import { shortenLog } from '#core/runs/masking.ts';
import { askModels } from './ask-model.ts';
import type { EngineResult, EngineRun, Warning } from './engine.ts';
import { SUBMIT, submitTool, submittedResult } from './loop/submit.ts';
import { systemMessage } from './loop/system-message.ts';
import { parameterProblem } from './loop/tool-definitions.ts';
import { errorOutcome, outcomeOf, type ToolOutcome } from './loop/tool-outcome.ts';
import { ToolReporter } from './loop/tool-reporter.ts';
import { LoopTools } from './loop/tools.ts';
import { unlessStopped } from './loop/unless-stopped.ts';
import { outputOfReply } from './reply.ts';
import { addSpending, noSpending, type Spending, spendingOf } from './spending.ts';
import { type StopSignal, stopSignal } from './stop-signal.ts';

/** Of one turn (`docs/interface/loops.md#messages`). */
const MAX_OUTPUT_TOKENS = 16_384;
/** Length of an error in progress events (`docs/interface/calls.md#streams`). */
const SHOWN_ERROR_CHARACTERS = 200;

type LoopDeps = Pick<Deps, 'llm' | 'sandbox' | 'config' | 'clock' | 'log' | 'background'>;

/**
 * Runs an agent as a loop of a model and its tools (`docs/interface/loops.md`): each turn, the model answers and the
 * tools that it called run, until it submits a result. The loop and the keys stay here; only the tools run in the
 * sandbox.
 *
 * Failures are in the result, with the spending until then: UNPROCESSABLE if the turns are used up, TIMEOUT,
 * RUN_CANCELLED, LLM_ERROR, LLM_RATE_LIMITED, SANDBOX_ERROR, INTERNAL_ERROR.
 */
export async function runLoop(deps: LoopDeps, run: EngineRun): Promise<EngineResult> {
  const startedAt = deps.clock.now();
  const stop = stopSignal(deps.clock, run, 'The agent was still at work');
  const loop = new Loop(deps, run, stop);
  const result = (outcome: Pick<EngineResult, 'data' | 'warnings' | 'error'>): EngineResult => ({
    ...outcome,
    ...loop.spending,
    stdout: '',
    stderr: shortenLog(run.mask.text(loop.log)),
    exitCode: null,
    executionMs: deps.clock.now() - startedAt,
  });
  try {
    const outcome = await loop.run();
    run.emit({ type: 'done', usage: loop.spending.usage });
    return result(outcome);
  } catch (cause) {
    const error = stop.signal.aborted ? stop.signal.reason : cause;
    if (!isPlatformError(error)) throw error;
    const message = run.mask.text(error.message);
    run.emit({ type: 'error', message: message.slice(0, SHOWN_ERROR_CHARACTERS), usage: loop.spending.usage });
    return result({ warnings: [], error: new PlatformError(error.code, message, error.extra) });
  } finally {
    stop.release();
    // The answer does not wait for the sandbox to close, nor for an unused one to open.
    const closed = loop.close().catch((error: unknown) => {
      deps.log.error('a sandbox could not be closed', { run_id: run.runId, error: String(error) });
    });
    void deps.background(closed);
  }
}

class Loop {
  readonly #deps: LoopDeps;
  readonly #run: EngineRun;
  readonly #stop: StopSignal;
  readonly #tools: LoopTools;
  readonly #submit: LlmTool;
  readonly #maxTurns: number;
  readonly #reporter: ToolReporter;
  /** Models that no provider refused in an earlier turn. */
  #models: readonly ModelChoice[];
  #spending: Spending;

  constructor(deps: LoopDeps, run: EngineRun, stop: StopSignal) {
    this.#deps = deps;
    this.#run = run;
    this.#stop = stop;
    this.#tools = new LoopTools(deps, run, stop.signal);
    this.#submit = submitTool(run.agent.definition.output_schema);
    this.#maxTurns = run.agent.definition.loop!.max_turns;
    this.#reporter = new ToolReporter(deps.clock, run, stop.signal);
    this.#models = run.models;
    this.#spending = noSpending(run.models[0]!);
  }

  get spending(): Spending {
    return this.#spending;
  }

  get log(): string {
    return this.#reporter.log.join('');
  }

  async run(): Promise<{ data: Json; warnings: Warning[] }> {
    const { input, mask, emit } = this.#run;
    const tools = [...this.#tools.definitions, this.#submit];
    const required = this.#tools.required;
    const system = systemMessage(this.#run, { tools, required, maxTurns: this.#maxTurns });
    const messages: LlmMessage[] = [{ role: 'user', text: JSON.stringify(input.document, null, 2) }];
    for (let turn = 1; turn <= this.#maxTurns; turn++) {
      emit({ type: 'turn_start', turn, max_turns: this.#maxTurns });
      const answer = await this.#ask({ system, messages, tools });
      if (answer.toolCalls.length > 0) {
        const { results, submitted } = await this.#callTools(turn, answer.toolCalls);
        if (submitted !== undefined) return { data: mask.json(submitted), warnings: [] };
        messages.push(answer.message, { role: 'tool', results });
        continue;
      }
      const stillRequired = this.#tools.required;
      if (stillRequired.length === 0) return outputOfReply(this.#run, answer);
      // Providers refuse an empty message.
      if (answer.text !== '') messages.push(answer.message);
      messages.push({ role: 'user', text: `${dependencyRequired(stillRequired)} Then call ${SUBMIT}.` });
    }
    throw new PlatformError(
      'UNPROCESSABLE',
      `The agent reached maximum turns (${this.#maxTurns}) and had not submitted a result.`,
      { hint: 'Its author can raise loop.max_turns, up to 50, or give it less to do in one call.' },
    );
  }

  /** Closes the sandbox. Tools that still run are not reported any more. */
  close(): Promise<void> {
    this.#reporter.close();
    return this.#tools.close();
  }

  /** One answer of the model. Throws LLM_ERROR if it declines, and what {@link askModels} throws. */
  async #ask(question: {
    readonly system: string;
    readonly messages: readonly LlmMessage[];
    readonly tools: readonly LlmTool[];
  }): Promise<LlmAnswer> {
    const { choice, answer } = await askModels(this.#deps, this.#run, this.#models, () => ({
      ...question,
      maxOutputTokens: MAX_OUTPUT_TOKENS,
      signal: this.#stop.signal,
    }));
    // A provider that refused is not asked again in later turns.
    this.#models = this.#models.slice(this.#models.indexOf(choice));
    this.#spending = addSpending(this.#spending, spendingOf(choice, answer.usage));
    if (answer.finishReason === 'content_filter') {
      throw new PlatformError('LLM_ERROR', `The model of ${PROVIDER_NAMES[choice.provider]} declined to answer.`);
    }
    return answer;
  }

  /** Results in the order of the calls. A result is submitted after all other tools of the turn have ended. */
  async #callTools(turn: number, calls: readonly LlmToolCall[]) {
    const outcomes = new Map<LlmToolCall, ToolOutcome>();
    const working = calls
      .filter(({ name }) => name !== SUBMIT)
      .map(async (call) => {
        outcomes.set(call, await this.#reporter.report(turn, call, () => this.#tools.call(call)));
      });
    await unlessStopped(this.#deps.clock, this.#stop.signal, Promise.all(working));
    let submitted: Json | undefined;
    for (const call of calls.filter(({ name }) => name === SUBMIT)) {
      const outcome = await this.#reporter.report(turn, call, async () => {
        const refusal = this.#refusal(call);
        if (refusal !== undefined) return errorOutcome(refusal);
        submitted ??= submittedResult(this.#run.agent.definition.output_schema, call.input!);
        return outcomeOf('The result was accepted.');
      });
      outcomes.set(call, outcome);
    }
    const results = calls.map((call) => ({ id: call.id, name: call.name, ...outcomes.get(call)! }));
    return { results, submitted };
  }

  /** Why a submitted result is not accepted. */
  #refusal({ input }: LlmToolCall): string | undefined {
    const { required } = this.#tools;
    if (required.length > 0) return `STRICT_MODE_DEPENDENCY_REQUIRED: ${dependencyRequired(required)}`;
    return parameterProblem(this.#submit, input);
  }
}

const dependencyRequired = (tools: readonly string[]): string =>
  `Before a result is accepted, a call of one of these tools must succeed: ${tools.join(', ')}.`;
