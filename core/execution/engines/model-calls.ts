import { isPlatformError, isRetryable, PlatformError } from '#core/base/errors.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import { either, keySecrets, providersOf, rowOf } from '#core/models/providers.ts';
import { type NextTry, type Question, RetryingLlm } from '#core/models/retrying-llm.ts';
import { pricedId } from '#core/models/transports.ts';
import type { Deps } from '#core/ports/deps.ts';
import { isLlmFailure, isOverflow, type LlmAnswer, type LlmRequest, type LlmUsage } from '#core/ports/llm.ts';
import { LiveMask } from '#core/runs/masking/masking.ts';
import type { TraceEvent } from '#core/runs/trace/trace.ts';
import { addSpending, noSpending, type Spending, spendingOf } from '#core/runs/usage/spending.ts';
import type { EngineRun } from './engine.ts';

export type AskDeps = Pick<Deps, 'llm' | 'modelTable' | 'clock' | 'config'>;

/** Position of a question in a run. */
export interface AskedAt {
  readonly signal: AbortSignal;
  /** Number of the loop's turn. */
  readonly turn?: number;
  /** Whether the answer is hidden from the client. */
  readonly isUnseen?: boolean;
  /** See {@link LlmRequest.onTool}. */
  readonly onTool?: LlmRequest['onTool'];
}

/** Asks the models of one run: streams text, traces every request and sums the spending. */
export class ModelCalls {
  readonly #deps: AskDeps;
  readonly #run: EngineRun;
  readonly #steady: RetryingLlm;
  #spending: Spending;
  /** Warnings that are in the trace, or will be with the next answer. */
  readonly #warned = new Set<string>();
  #toTrace: string[] = [];

  constructor(deps: AskDeps, run: EngineRun) {
    this.#deps = deps;
    this.#run = run;
    this.#steady = new RetryingLlm(deps, run);
    this.#spending = noSpending(run.models[0]!);
  }

  /** Spending of all requests so far, including failed ones. */
  get spending(): Spending {
    return this.#spending;
  }

  /** Restores the spending of a run that another process began. */
  restore(spending: Spending): void {
    this.#spending = spending;
  }

  /** Counts a request whose process died before its answer: the provider charges at least for what it was sent. */
  countUnanswered(choice: ModelChoice, { span, provider, model }: TraceEvent, inputTokens: number): void {
    const usage = { inputTokens, outputTokens: 0 };
    this.#spending = addSpending(this.#spending, spendingOf(this.#deps, choice, usage));
    const payload = { estimated: true };
    this.#run.trace.add({
      event_type: 'llm_call_failed',
      span,
      provider,
      model,
      payload,
      ...this.#traced(choice, usage),
    });
  }

  /** Adds warnings to the trace of the next answer, each once in a run. */
  warn(texts: readonly string[]): void {
    for (const text of texts) {
      if (this.#warned.has(text)) continue;
      this.#warned.add(text);
      this.#toTrace.push(text);
    }
  }

  /**
   * Asks `models` in order until one answers ({@link RetryingLlm}). Answers in a loop's `turn` are always streamed, to
   * detect
   * whether the provider is alive, and may restart: the client is then told to discard the text. Throws an error of the
   * last
   * retryable kind with the messages of all providers that failed, or the reason of `signal`.
   */
  async ask(
    models: readonly ModelChoice[],
    question: (choice: ModelChoice) => Omit<Question, 'onText' | 'onThought'>,
    { signal, turn, isUnseen = false, onTool }: AskedAt,
  ): Promise<{ choice: ModelChoice; answer: LlmAnswer }> {
    const { clock } = this.#deps;
    const failures: PlatformError[] = [];
    const isStreamed = (this.#run.isWatched && !isUnseen) || turn !== undefined;
    let attempt = 0;
    let startedAt = 0;
    let span = 0;
    let shown = new ShownText(this.#run, 'text_delta', isUnseen);
    let thoughts = new ShownText(this.#run, 'reasoning_delta', isUnseen);
    try {
      const answered = await this.#steady.ask(models, {
        signal,
        question: (choice) => ({
          ...question(choice),
          ...(this.#run.traceHeaders && { traceHeaders: this.#run.traceHeaders(span) }),
          ...(isStreamed && { onText: (piece: string) => shown.push(piece), onTool }),
          ...(this.#run.isWatched && !isUnseen && { onThought: (piece: string) => thoughts.push(piece) }),
        }),
        mayRepeat: () => turn !== undefined || !shown.hasBegun,
        onStart: (choice) => {
          const { provider, model, transport } = choice;
          attempt++;
          startedAt = clock.now();
          shown = new ShownText(this.#run, 'text_delta', isUnseen);
          thoughts = new ShownText(this.#run, 'reasoning_delta', isUnseen);
          const payload =
            attempt > 1 || transport !== undefined
              ? { ...(attempt > 1 && { attempt }), ...(transport && { via: transport.via }) }
              : undefined;
          span = this.#run.trace.begin({ event_type: 'llm_call_started', provider, model, payload }, (contents) =>
            contents.question(question(choice)),
          );
        },
        onSkip: (choice, other) => this.#traceFallback(choice, other, 'CIRCUIT_OPEN'),
        onFailure: (choice, error, spent, next) => {
          if (isPlatformError(error) && !isSameModel(next)) failures.push(error);
          this.#traceFailure(choice, error, { spent, next, span, durationMs: clock.now() - startedAt });
          if (next !== undefined && turn !== undefined) this.#tellRetry(error, next, { turn, attempt: attempt + 1 });
        },
      });
      thoughts.end();
      shown.end();
      this.warn(answered.answer.warnings ?? []);
      this.#count(answered, { span, durationMs: clock.now() - startedAt });
      return answered;
    } catch (error) {
      signal.throwIfAborted();
      // The model is asked again: with fewer tokens, with all tools, without its settings, with the schema in another
      // form or, in a loop, with a shorter conversation.
      const isAskedAgain =
        isLlmFailure(error) &&
        (error.maxOutputTokens !== undefined || error.refusesOnly || error.refusesSettings || error.isSchemaRefusal);
      if (isAskedAgain || (isOverflow(error) && turn !== undefined)) throw error;
      throw isPlatformError(error) ? this.#sumOf(failures) : error;
    }
  }

  #count(
    { choice, answer }: { readonly choice: ModelChoice; readonly answer: LlmAnswer },
    { span, durationMs }: TimedSpan,
  ): void {
    const { usage } = answer;
    const { provider, model } = choice;
    const warnings = this.#toTrace.map((text) => this.#run.mask.text(text));
    this.#toTrace = [];
    const payload = {
      ...(warnings.length > 0 && { warnings }),
      // Only spans that are exported need it.
      ...(this.#run.traceHeaders && { finish_reason: answer.finishReason }),
    };
    this.#spending = addSpending(this.#spending, spendingOf(this.#deps, choice, usage));
    this.#run.trace.add(
      {
        event_type: 'llm_call_succeeded',
        span,
        provider,
        model,
        ...(Object.keys(payload).length > 0 && { payload }),
        ...this.#traced(choice, usage),
        duration_ms: durationMs,
      },
      (contents) => contents.answer(answer),
    );
  }

  #traceFailure(
    choice: ModelChoice,
    error: unknown,
    { spent, next, span, durationMs }: TimedSpan & { readonly spent: LlmUsage | undefined; readonly next: NextTry },
  ): void {
    const { trace, mask } = this.#run;
    const { provider, model } = choice;
    if (spent !== undefined) this.#spending = addSpending(this.#spending, spendingOf(this.#deps, choice, spent));
    const payload = {
      ...(spent !== undefined && { estimated: true }),
      ...(isSameModel(next) && { retried_after_ms: next.waitMs }),
    };
    trace.add({
      event_type: 'llm_call_failed',
      span,
      provider,
      model,
      ...(Object.keys(payload).length > 0 && { payload }),
      ...(spent !== undefined && this.#traced(choice, spent)),
      duration_ms: durationMs,
      ...(isPlatformError(error) && { error_type: error.code, error_message: mask.text(error.message) }),
    });
    if (next === undefined || isSameModel(next)) return;
    this.#traceFallback(choice, next.other, (error as PlatformError).code);
  }

  #traceFallback({ provider: from }: ModelChoice, { provider, model }: ModelChoice, reason: string): void {
    const payload = { from_provider: from, to_provider: provider, reason };
    this.#run.trace.add({ event_type: 'fallback_transition', payload, provider, model });
  }

  #traced(choice: ModelChoice, usage: LlmUsage) {
    return {
      token_input: usage.inputTokens,
      token_output: usage.outputTokens,
      cache_read_tokens: usage.cacheReadTokens,
      cache_write_tokens: usage.cacheWriteTokens,
      cost_usd: this.#deps.modelTable.costOf(choice.provider, pricedId(choice), usage, choice.price),
    };
  }

  #tellRetry(error: unknown, next: NextTry, at: { readonly turn: number; readonly attempt: number }): void {
    const reason = (error as PlatformError).code;
    const wait_ms = isSameModel(next) ? next.waitMs : 0;
    this.#run.emit({ type: 'retry', ...at, reason, wait_ms, discard_text: true });
  }

  /**
   * Combines the errors of all failed providers into one. If they are rate limits, names the other providers the caller
   * could use.
   */
  #sumOf(failures: readonly PlatformError[]): PlatformError {
    const mayPass = ({ code, extra }: PlatformError): boolean => isRetryable(code) && extra.is_retryable !== false;
    const { code, extra } = failures.findLast(mayPass) ?? failures.at(-1)!;
    const waits = failures.flatMap((failure) => failure.extra.suggested_wait_time ?? []);
    const advice = code === 'LLM_RATE_LIMITED' ? this.#advice() : '';
    return new PlatformError(code, failures.map(({ message }) => message).join(' ') + advice, {
      ...extra,
      ...(waits.length > 0 && { suggested_wait_time: Math.min(...waits) }),
    });
  }

  #advice(): string {
    const { agent, models } = this.#run;
    const others = providersOf(agent.definition, this.#deps.config).filter(
      (provider) => !models.some((used) => used.provider === provider),
    );
    if (others.length === 0) return '';
    const names = keySecrets(others);
    const orSecret = names.length > 0 ? `, or add ${either(names)} to the secrets of the workspace` : '';
    return ` The agent also supports ${either(others.map((provider) => rowOf(provider).title))}: send llm_credentials for it${orSecret}.`;
  }
}

/** A request in the trace: its span number and duration. */
interface TimedSpan {
  readonly span: number;
  readonly durationMs: number;
}

const isSameModel = (next: NextTry): next is { readonly waitMs: number } => next !== undefined && 'waitMs' in next;

/** Masks the text or thinking of one answer on the way to a client. */
class ShownText {
  readonly #run: EngineRun;
  /** Created for the first piece: most answers are shown whole. */
  #live: LiveMask | undefined;
  readonly #type: 'text_delta' | 'reasoning_delta';
  readonly #isWanted: boolean;
  /** Whether the client has received any of it. */
  hasBegun = false;

  constructor(run: EngineRun, type: 'text_delta' | 'reasoning_delta', isUnseen: boolean) {
    this.#run = run;
    this.#type = type;
    this.#isWanted = run.isWatched === true && !isUnseen;
  }

  push(piece: string): void {
    if (!this.#isWanted) return;
    this.#live ??= new LiveMask(this.#run.mask);
    this.#show(this.#live.push(piece));
  }

  end(): void {
    if (this.#live !== undefined) this.#show(this.#live.end());
  }

  #show(text: string): void {
    if (text === '') return;
    this.hasBegun = true;
    this.#run.emit({ type: this.#type, text });
  }
}
