import type { Deps } from '../deps.ts';
import { isPlatformError, PlatformError } from '../errors.ts';
import { costOf, either, PROVIDER_NAMES, providersOf, secretNames } from '../llm/models.ts';
import type { LlmAnswer, LlmProvider } from '../ports/llm.ts';
import { LiveMask } from '../runs/masking.ts';
import type { EngineResult, EngineRun, ModelChoice } from './engine.ts';
import { parseReply, renderPrompt } from './prompt.ts';

/** `contract.md` 11.4. */
const MAX_OUTPUT_TOKENS = 4096;
/** Where the model's thoughts count as output, too. */
const MAX_OUTPUT_TOKENS_WITH_THOUGHTS = 16_384;

type EngineDeps = Pick<Deps, 'llm' | 'clock' | 'config'>;

/**
 * Runs a prompt agent: one message to a model, its reply as JSON (`contract.md` 11.4). A provider that takes no more
 * requests for now is replaced by the next of `run.models`. Throws the reason of `run.signal` once that is aborted, and
 * MISSING_INPUT_FIELDS; whatever else goes wrong is in the result.
 */
export async function runPrompt(deps: EngineDeps, run: EngineRun): Promise<EngineResult> {
  const { agent, mask } = run;
  const startedAt = deps.clock.now();
  const text = renderPrompt(run.skills, agent.definition.prompt ?? '', run.input.document);
  const result = (rest: Pick<EngineResult, 'data' | 'error'> & Partial<EngineResult>): EngineResult => ({
    warnings: [],
    stdout: '',
    stderr: '',
    exitCode: null,
    executionMs: deps.clock.now() - startedAt,
    ...rest,
  });

  const stop = new AbortController();
  const onCancel = (): void => stop.abort(run.signal.reason);
  if (run.signal.aborted) onCancel();
  run.signal.addEventListener('abort', onCancel);
  const answered = new AbortController();
  deps.clock.sleep(Math.max(0, run.deadline - startedAt), answered.signal).then(
    () => stop.abort(timeout(run.deadline)),
    () => {},
  );
  try {
    const { choice, answer } = await askInTurn(deps, run, text, stop.signal);
    const { inputTokens, outputTokens } = answer.usage;
    const spent = {
      usage: { input_tokens: inputTokens, output_tokens: outputTokens },
      model: { provider: choice.provider, model: choice.model },
      costUsd: costOf(choice.provider, choice.model, answer.usage),
    };
    if (answer.finishReason === 'content_filter') {
      const message = `The model of ${PROVIDER_NAMES[choice.provider]} declined to answer.`;
      return result({ error: new PlatformError('LLM_ERROR', message), ...spent });
    }
    const isCut = answer.finishReason === 'length';
    const data = mask.json(parseReply(answer.text, agent.definition.output_schema !== null));
    const done = result({
      data,
      warnings: isCut
        ? [{ code: 'TRUNCATED', message: 'The answer was longer than the model may write at once, and is cut.' }]
        : [],
      ...spent,
    });
    run.emit({ type: 'done', usage: spent.usage, execution_time_ms: done.executionMs });
    return done;
  } catch (error) {
    run.signal.throwIfAborted();
    if (!isPlatformError(error)) throw error;
    const { provider, model } = run.models[0]!;
    return result({
      error: new PlatformError(error.code, mask.text(error.message), error.extra),
      model: { provider, model },
    });
  } finally {
    answered.abort();
    run.signal.removeEventListener('abort', onCancel);
  }
}

const timeout = (deadline: number): PlatformError =>
  new PlatformError(
    'TIMEOUT',
    `The model had not answered at the deadline of the run, ${new Date(deadline).toISOString()}.`,
  );

/** The first answer of the models, in order. Only a provider that limits its rate makes way for the next. */
async function askInTurn(
  deps: EngineDeps,
  run: EngineRun,
  text: string,
  signal: AbortSignal,
): Promise<{ choice: ModelChoice; answer: LlmAnswer }> {
  const refusals: PlatformError[] = [];
  for (const [index, choice] of run.models.entries()) {
    const progress = { hasBegun: false };
    try {
      return { choice, answer: await ask(deps, run, choice, text, signal, progress) };
    } catch (error) {
      // What was shown already cannot be taken back.
      if (!isPlatformError(error) || error.code !== 'LLM_RATE_LIMITED' || progress.hasBegun) throw error;
      refusals.push(error);
    }
    const next = run.models[index + 1];
    if (next !== undefined) {
      run.trace.add({
        event_type: 'fallback_transition',
        payload: { from: choice.provider, to: next.provider, reason: 'LLM_RATE_LIMITED' },
        provider: next.provider,
        model: next.model,
      });
    }
  }
  throw allRefused(deps, run, refusals);
}

async function ask(
  deps: EngineDeps,
  run: EngineRun,
  { provider, model, apiKey }: ModelChoice,
  text: string,
  signal: AbortSignal,
  progress: { hasBegun: boolean },
): Promise<LlmAnswer> {
  const startedAt = deps.clock.now();
  const live = new LiveMask(run.mask);
  const show = (piece: string): void => {
    if (piece === '') return;
    progress.hasBegun = true;
    run.emit({ type: 'text_delta', text: piece });
  };
  run.trace.add({ event_type: 'llm_call_started', provider, model });
  try {
    const answer = await deps.llm.generate({
      provider,
      model,
      apiKey,
      messages: [{ role: 'user', text }],
      maxOutputTokens: provider === 'anthropic' ? MAX_OUTPUT_TOKENS : MAX_OUTPUT_TOKENS_WITH_THOUGHTS,
      json: wantsJsonMode(run, text),
      signal,
      ...(run.isWatched && { onText: (piece: string) => show(live.push(piece)) }),
    });
    show(live.end());
    const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens } = answer.usage;
    run.trace.add({
      event_type: 'llm_call_succeeded',
      provider,
      model,
      token_input: inputTokens,
      token_output: outputTokens,
      cache_read_tokens: cacheReadTokens,
      cache_write_tokens: cacheWriteTokens,
      cost_usd: costOf(provider, model, answer.usage),
      duration_ms: deps.clock.now() - startedAt,
    });
    return answer;
  } catch (error) {
    run.trace.add({
      event_type: 'llm_call_failed',
      provider,
      model,
      duration_ms: deps.clock.now() - startedAt,
      ...(isPlatformError(error) && { error_type: error.code, error_message: run.mask.text(error.message) }),
    });
    throw error;
  }
}

/** Providers take the mode for objects only, and only for prompts that speak of JSON. */
function wantsJsonMode({ agent }: EngineRun, text: string): boolean {
  const schema = agent.definition.output_schema;
  return schema !== null && (schema.type ?? 'object') === 'object' && /json/i.test(text);
}

/** One error for all of them, which says what else the caller could use. */
function allRefused({ config }: EngineDeps, run: EngineRun, refusals: readonly PlatformError[]): PlatformError {
  const used: LlmProvider[] = run.models.map(({ provider }) => provider);
  const others = providersOf(run.agent, config).filter((provider) => !used.includes(provider));
  const names = secretNames(others);
  const advice =
    others.length === 0
      ? ''
      : ` The agent runs on ${either(others.map((provider) => PROVIDER_NAMES[provider]))}, too: send llm_credentials for it${names.length > 0 ? `, or add ${either(names)} to the secrets of the workspace` : ''}.`;
  const waits = refusals.flatMap(({ extra }) => extra.suggested_wait_time ?? []);
  return new PlatformError(
    'LLM_RATE_LIMITED',
    refusals.map(({ message }) => message).join(' ') + advice,
    waits.length > 0 ? { suggested_wait_time: Math.min(...waits) } : {},
  );
}
