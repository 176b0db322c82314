import type { LlmProvider, LlmUsage } from '#core/ports/llm.ts';

/** US dollars per million tokens: input, output, input read from the provider's cache. */
type Price = readonly [input: number, output: number, cacheRead: number];

/** Standard prices in November 2026. Some models cost more for prompts of over 100,000 tokens. */
const PRICES: ReadonlyMap<string, Price> = new Map(
  Object.entries<Price>({
    'claude-fable-5-1': [10, 50, 0.25],
    'claude-fable-5': [10, 50, 1],
    'claude-opus-5-5': [4, 20, 0.2],
    'claude-opus-5': [5, 25, 0.5],
    'claude-opus-4-8': [5, 25, 0.5],
    'claude-opus-4-7': [5, 25, 0.5],
    'claude-opus-4-6': [5, 25, 0.5],
    'claude-opus-4-5': [5, 25, 0.5],
    'claude-opus-4-1': [15, 75, 1.5],
    'claude-sonnet-5-5': [2, 10, 0.1],
    'claude-sonnet-5': [2, 10, 0.2],
    'claude-sonnet-4-6': [3, 15, 0.3],
    'claude-sonnet-4-5': [3, 15, 0.3],
    'claude-haiku-5-5': [0.1, 0.5, 0.01],
    'claude-haiku-4-5': [1, 5, 0.1],
    'gpt-6.1-sol': [2, 10, 0.1],
    'gpt-6-sol': [2, 10, 0.2],
    'gpt-6-luna': [0.1, 0.5, 0.01],
    'gpt-5.6-sol': [4, 20, 0.4],
    'gpt-5.6-terra': [2, 12, 0.2],
    'gpt-5.6-luna': [0.2, 1.2, 0.02],
    'gpt-5.2': [1.75, 14, 0.175],
    'gpt-5.1': [1.25, 10, 0.125],
    'gpt-5': [1.25, 10, 0.125],
    'gpt-5-mini': [0.25, 2, 0.025],
    'gpt-5-nano': [0.05, 0.4, 0.005],
    'gpt-4.1': [2, 8, 0.5],
    'gpt-4.1-mini': [0.4, 1.6, 0.1],
    'gpt-4.1-nano': [0.1, 0.4, 0.025],
    'gpt-4o': [2.5, 10, 1.25],
    'gpt-4o-mini': [0.15, 0.6, 0.075],
    // Half price until the end of 2026.
    'gemini-3.8-flash': [0.75, 3.75, 0.075],
    'gemini-3.7-flash': [0.75, 3.75, 0.075],
    'gemini-3.6-flash': [1.5, 7.5, 0.15],
    'gemini-3-pro-preview': [2, 12, 0.2],
    'gemini-3-flash-preview': [0.5, 3, 0.05],
    'gemini-2.5-pro': [1.25, 10, 0.125],
    'gemini-2.5-flash': [0.3, 2.5, 0.03],
    'gemini-2.5-flash-lite': [0.1, 0.4, 0.01],
  }),
);

/** Providers that charge for cache writes charge a quarter more than for other input. */
const CACHE_WRITE_FACTOR = 1.25;
/** Suffixes of the same model at the same price: `-20251001`, `-2025-08-07`, `-latest`. */
const EDITION = /-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$/;

/** Price of a request in US dollars; `undefined` if the model's price is not known. A local model costs nothing. */
export function costOf(provider: LlmProvider, model: string, usage: LlmUsage): number | undefined {
  if (provider === 'ollama') return 0;
  const price = PRICES.get(model) ?? PRICES.get(model.replace(EDITION, ''));
  if (price === undefined) return undefined;
  const [input, output, cacheRead] = price;
  const { cacheReadTokens = 0, cacheWriteTokens = 0 } = usage;
  const fresh = usage.inputTokens - cacheReadTokens - cacheWriteTokens;
  const microdollars =
    fresh * input +
    cacheReadTokens * cacheRead +
    cacheWriteTokens * input * CACHE_WRITE_FACTOR +
    usage.outputTokens * output;
  return microdollars / 1e6;
}
