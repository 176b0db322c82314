import { isPlatformError, PlatformError } from '#core/base/errors.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import { costOf } from '#core/models/prices.ts';
import { either, PROVIDER_NAMES, providersOf, secretNames } from '#core/models/providers.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { LlmAnswer, LlmProvider, LlmRequest } from '#core/ports/llm.ts';
import { LiveMask } from '#core/runs/masking.ts';
import type { EngineRun } from './engine.ts';

export type AskDeps = Pick<Deps, 'llm' | 'clock' | 'config'>;

/** The part of a request that does not depend on the model. */
type Question = Pick<LlmRequest, 'system' | 'messages' | 'tools' | 'maxOutputTokens' | 'json' | 'signal'>;

/**
 * Asks `models` in order until one answers. The next one is asked only if a provider limits its rate before its first
 * text. Emits text as it comes and traces every step. Throws what {@link Llm.generate} throws, and LLM_RATE_LIMITED if all
 * providers refused.
 */
export async function askModels(
  deps: AskDeps,
  run: EngineRun,
  models: readonly ModelChoice[],
  question: (choice: ModelChoice) => Question,
): Promise<{ choice: ModelChoice; answer: LlmAnswer }> {
  const refusals: PlatformError[] = [];
  for (const [index, choice] of models.entries()) {
    const progress = { hasBegun: false };
    try {
      return { choice, answer: await ask(deps, run, choice, question(choice), progress) };
    } catch (error) {
      // Text that a client has seen cannot be taken back.
      if (!isPlatformError(error) || error.code !== 'LLM_RATE_LIMITED' || progress.hasBegun) throw error;
      refusals.push(error);
    }
    const next = models[index + 1];
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
  deps: AskDeps,
  run: EngineRun,
  { provider, model, apiKey }: ModelChoice,
  question: Question,
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
      ...question,
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

/** One error for all refusals, with the other providers that the caller could use. */
function allRefused({ config }: AskDeps, run: EngineRun, refusals: readonly PlatformError[]): PlatformError {
  const used: LlmProvider[] = run.models.map(({ provider }) => provider);
  const others = providersOf(run.agent.definition, config).filter((provider) => !used.includes(provider));
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
