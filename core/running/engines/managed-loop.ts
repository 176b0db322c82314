import { isPlatformError, PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import { costOf } from '#core/models/prices.ts';
import { PROVIDER_NAMES } from '#core/models/providers.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { LlmMessage, LlmTool, LlmToolCall, LlmUsage } from '#core/ports/llm.ts';
import { shortenLog } from '#core/runs/masking.ts';
import { askModels } from './ask-model.ts';
import type { EngineResult, EngineRun, Warning } from './engine.ts';
import { systemMessage } from './loop/system-message.ts';
import { LoopTools, parameterProblem, SUBMIT, type ToolOutcome } from './loop/tools.ts';
import { parseReply } from './prompt.ts';
import { type StopSignal, stopSignal } from './stop-signal.ts';

/** `contract.md` 11.3. */
const MAX_OUTPUT_TOKENS = 16_384;
/** How long tools that were told to stop may take to say what they had printed. */
const STOP_GRACE_MS = 300;
/** Of an error, as those who watch the run see it (`contract.md` 1.2). */
const SHOWN_ERROR_CHARACTERS = 200;
/** Of what a tool had printed when the run was stopped, as the run's log keeps it. */
const STOPPED_OUTPUT_CHARACTERS = 4000;

type LoopDeps = Pick<Deps, 'llm' | 'sandbox' | 'config' | 'clock' | 'log' | 'background'>;

/**
 * Runs an agent as a loop of a model and its tools (`contract.md` 11.3): each turn, the model answers, and the tools that
 * it called run, until it submits a result. The loop and the keys are here; only what tools do is in the sandbox.
 *
 * What goes wrong is in the result, with what the turns had cost: UNPROCESSABLE when the turns are used up, TIMEOUT,
 * RUN_CANCELLED, LLM_ERROR, LLM_RATE_LIMITED, SANDBOX_ERROR, INTERNAL_ERROR.
 */
export async function runLoop(deps: LoopDeps, run: EngineRun): Promise<EngineResult> {
  const startedAt = deps.clock.now();
  const stop = stopSignal(deps.clock, run, 'The agent was still at work');
  const loop = new Loop(deps, run, stop);
  try {
    const outcome = await loop.toEnd();
    run.emit({ type: 'done', usage: loop.spent.usage });
    return { ...outcome, ...loop.spent, ...ended() };
  } catch (cause) {
    const error = stop.signal.aborted ? stop.signal.reason : cause;
    if (!isPlatformError(error)) throw error;
    const message = run.mask.text(error.message);
    run.emit({ type: 'error', message: message.slice(0, SHOWN_ERROR_CHARACTERS), usage: loop.spent.usage });
    return { warnings: [], error: new PlatformError(error.code, message, error.extra), ...loop.spent, ...ended() };
  } finally {
    stop.release();
    // An answer need not wait for the sandbox to be gone, nor for one that was not needed to be there.
    const closed = loop.close().catch((error: unknown) => {
      deps.log.error('a sandbox could not be closed', { run_id: run.runId, error: String(error) });
    });
    void deps.background(closed);
  }

  function ended() {
    return {
      stdout: '',
      stderr: shortenLog(run.mask.text(loop.log.join(''))),
      exitCode: null,
      executionMs: deps.clock.now() - startedAt,
    };
  }
}

type Spent = Required<Pick<EngineResult, 'usage' | 'model'>> & Pick<EngineResult, 'costUsd'>;

class Loop {
  readonly #deps: LoopDeps;
  readonly #run: EngineRun;
  readonly #stop: StopSignal;
  readonly #tools: LoopTools;
  readonly #submit: LlmTool;
  readonly #maxTurns: number;
  #isOver = false;
  /** A line for each tool that was called. */
  readonly log: string[] = [];
  spent: Spent;

  constructor(deps: LoopDeps, run: EngineRun, stop: StopSignal) {
    this.#deps = deps;
    this.#run = run;
    this.#stop = stop;
    this.#tools = new LoopTools(deps, run, stop.signal);
    this.#submit = submitTool(run.agent.definition.output_schema);
    this.#maxTurns = run.agent.definition.loop!.max_turns;
    const { provider, model } = run.models[0]!;
    this.spent = { usage: { input_tokens: 0, output_tokens: 0 }, model: { provider, model }, costUsd: 0 };
  }

  async toEnd(): Promise<{ data: Json; warnings: Warning[] }> {
    const { agent, input, mask, emit } = this.#run;
    const tools = [...this.#tools.definitions, this.#submit];
    const system = systemMessage(this.#run, { tools, owed: this.#tools.owed, maxTurns: this.#maxTurns });
    const messages: LlmMessage[] = [{ role: 'user', text: JSON.stringify(input.document, null, 2) }];
    let models = this.#run.models;
    for (let turn = 1; turn <= this.#maxTurns; turn++) {
      emit({ type: 'turn_start', turn, max_turns: this.#maxTurns });
      const question = { system, messages, tools, maxOutputTokens: MAX_OUTPUT_TOKENS, signal: this.#stop.signal };
      const { choice, answer } = await askModels(this.#deps, this.#run, models, () => question);
      // A provider that refused is not asked again in every turn.
      models = models.slice(models.indexOf(choice));
      this.#count(choice, answer.usage);
      if (answer.finishReason === 'content_filter') {
        throw new PlatformError('LLM_ERROR', `The model of ${PROVIDER_NAMES[choice.provider]} declined to answer.`);
      }

      const { text, toolCalls } = answer;
      if (toolCalls.length > 0) {
        const { results, submitted } = await this.#callTools(turn, toolCalls);
        if (submitted !== undefined) return { data: mask.json(submitted), warnings: [] };
        messages.push(answer.message, { role: 'tool', results });
        continue;
      }
      const { owed } = this.#tools;
      if (owed.length === 0) {
        const isCut = answer.finishReason === 'length';
        const message = 'The answer was longer than the model may write at once, and is cut.';
        return {
          data: mask.json(parseReply(text, agent.definition.output_schema !== null)),
          warnings: isCut ? [{ code: 'TRUNCATED', message }] : [],
        };
      }
      // A turn without a word is none that could be sent back.
      if (text !== '') messages.push(answer.message);
      messages.push({ role: 'user', text: `${dependencyRequired(owed)} Then call ${SUBMIT}.` });
    }
    throw new PlatformError(
      'UNPROCESSABLE',
      `The agent reached maximum turns (${this.#maxTurns}) and had not submitted a result.`,
      { hint: 'Its author can raise loop.max_turns, up to 50, or give it less to do in one call.' },
    );
  }

  close(): Promise<void> {
    this.#isOver = true;
    return this.#tools.close();
  }

  #count({ provider, model }: ModelChoice, usage: LlmUsage): void {
    const { usage: before, costUsd } = this.spent;
    const cost = costOf(provider, model, usage);
    this.spent = {
      usage: {
        input_tokens: before.input_tokens + usage.inputTokens,
        output_tokens: before.output_tokens + usage.outputTokens,
      },
      model: { provider, model },
      costUsd: cost === undefined || costUsd === undefined ? undefined : costUsd + cost,
    };
  }

  /** Results in the order of the calls. A result is submitted after all else that was called in the same turn. */
  async #callTools(turn: number, calls: readonly LlmToolCall[]) {
    const outcomes = new Map<LlmToolCall, ToolOutcome>();
    const isSubmit = ({ name }: LlmToolCall) => name === SUBMIT;
    const working = calls
      .filter((call) => !isSubmit(call))
      .map(async (call) => {
        outcomes.set(call, await this.#watched(turn, call, () => this.#tools.call(call)));
      });
    await this.#unlessStopped(Promise.all(working));
    let submitted: Json | undefined;
    for (const call of calls.filter(isSubmit)) {
      outcomes.set(
        call,
        await this.#watched(turn, call, async () => {
          const refusal = this.#refusal(call);
          if (refusal !== undefined) return { text: `[ERROR] ${refusal}`, isError: true };
          submitted ??= this.#resultOf(call);
          return { text: 'The result was accepted.', isError: false };
        }),
      );
    }
    const results = calls.map((call) => ({ id: call.id, name: call.name, ...outcomes.get(call)! }));
    return { results, submitted };
  }

  /** Why a result is not accepted. */
  #refusal({ input }: LlmToolCall): string | undefined {
    const { owed } = this.#tools;
    if (owed.length > 0) return `STRICT_MODE_DEPENDENCY_REQUIRED: ${dependencyRequired(owed)}`;
    return parameterProblem(this.#submit, input);
  }

  #resultOf({ input }: LlmToolCall): Json {
    const { output_schema: schema } = this.#run.agent.definition;
    return schema === null || isObjectSchema(schema) ? input! : (input as { result: Json }).result;
  }

  /** Shows, traces and logs a call of a tool. */
  async #watched(turn: number, call: LlmToolCall, work: () => Promise<ToolOutcome>): Promise<ToolOutcome> {
    const { emit, trace, mask } = this.#run;
    // The model may call a tool by any name.
    const tool = call.name.slice(0, 64);
    const startedAt = this.#deps.clock.now();
    const payload = { tool, turn };
    emit({ type: 'tool_call', turn, tool, args_brief: brief(call, (text) => mask.text(text)) });
    trace.add({ event_type: 'tool_call_started', payload });
    let outcome: ToolOutcome | undefined;
    try {
      outcome = await work();
      return outcome;
    } finally {
      // A tool that could not be stopped in time ends with the sandbox; then nobody listens any more.
      if (!this.#isOver) {
        const status = outcome?.isError === false ? 'ok' : 'error';
        const duration = this.#deps.clock.now() - startedAt;
        const violation = /^\[ERROR\] (STRICT_MODE_\w+)/.exec(outcome?.text ?? '')?.[1];
        emit({ type: 'tool_result', turn, tool, status });
        trace.add({
          event_type: status === 'ok' ? 'tool_call_succeeded' : 'tool_call_failed',
          payload,
          duration_ms: duration,
        });
        if (violation) trace.add({ event_type: 'policy_violation', payload: { ...payload, code: violation } });
        this.log.push(`turn ${turn}: ${tool} ${status}, ${Math.round(duration)} ms\n`);
        if (this.#stop.signal.aborted && outcome) this.log.push(`${outcome.text.slice(-STOPPED_OUTPUT_CHARACTERS)}\n`);
      }
    }
  }

  /** Throws the reason for the stop, once the tools have had a moment to say what they had printed. */
  async #unlessStopped<T>(work: Promise<T>): Promise<T> {
    const { signal } = this.#stop;
    const settled = new AbortController();
    const stopped = new Promise<never>((_, reject) => {
      const onStop = () =>
        this.#deps.clock.sleep(STOP_GRACE_MS, settled.signal).then(
          () => reject(signal.reason),
          () => {},
        );
      if (signal.aborted) onStop();
      else signal.addEventListener('abort', onStop, { signal: settled.signal });
    });
    try {
      const result = await Promise.race([work, stopped]);
      signal.throwIfAborted();
      return result;
    } finally {
      settled.abort();
    }
  }
}

const dependencyRequired = (owed: readonly string[]): string =>
  `Before a result is accepted, a call of one of these tools must succeed: ${owed.join(', ')}.`;

/** Providers take objects as parameters, and no choice between several. */
const isObjectSchema = (schema: Readonly<Record<string, unknown>>): boolean =>
  (schema.type === 'object' || (schema.type === undefined && 'properties' in schema)) &&
  !['anyOf', 'oneOf', 'allOf', '$ref'].some((keyword) => keyword in schema);

/** Its parameters are the result, where that is an object; else one parameter is. */
function submitTool(schema: Readonly<Record<string, unknown>> | null): LlmTool {
  const description = 'Ends the work: the parameters are its result.';
  if (schema !== null && isObjectSchema(schema)) {
    return { name: SUBMIT, description, inputSchema: { ...schema, type: 'object' } };
  }
  const { $schema, $defs, definitions, ...result } = schema ?? { type: 'string' };
  // References lead to the root.
  const shared = { ...($schema !== undefined && { $schema }), ...($defs !== undefined && { $defs }) };
  return {
    name: SUBMIT,
    description,
    inputSchema: {
      ...shared,
      ...(definitions !== undefined && { definitions }),
      type: 'object',
      properties: { result },
      required: ['result'],
    },
  };
}

/** What those who watch a run see of a call (`contract.md` 1.2). Cut after it is masked: half a secret is one, too. */
function brief({ name, input }: LlmToolCall, mask: (text: string) => string): string {
  if (name === SUBMIT) return '';
  const { command, path, content } = (input ?? {}) as { [name: string]: Json };
  if (name === 'bash' && typeof command === 'string') return mask(command).slice(0, 120);
  if (name === 'write_file' && typeof path === 'string' && typeof content === 'string') {
    return `${mask(path).slice(0, 200)} (${content.length} characters)`;
  }
  return mask(JSON.stringify(input ?? {})).slice(0, 100);
}
