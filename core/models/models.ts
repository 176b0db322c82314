import { PlatformError } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { LlmProvider, LlmUsage } from '#core/ports/llm.ts';

/** In messages. */
export const PROVIDER_NAMES: { readonly [Provider in LlmProvider]: string } = {
  anthropic: 'Anthropic',
  openai: 'OpenAI',
  gemini: 'Gemini',
  ollama: 'the local model server',
};

/** The secrets of a workspace that hold keys (`contract.md` 1.1); a local model server needs none. */
export const KEY_SECRETS = {
  anthropic: 'ANTHROPIC_API_KEY',
  openai: 'OPENAI_API_KEY',
  gemini: 'GEMINI_API_KEY',
} as const;

/** What `any` means, in the order of preference. */
const ALL_PROVIDERS: readonly LlmProvider[] = ['anthropic', 'openai', 'gemini', 'ollama'];

/** Used where neither the caller nor the agent names a model (`spec.md`, *Agent manifest*). */
const DEFAULT_MODELS: { readonly [Provider in LlmProvider]: string } = {
  anthropic: 'claude-sonnet-5-5',
  openai: 'gpt-6-sol',
  gemini: 'gemini-3.8-flash',
  ollama: 'llama3.2',
};

/** Becomes part of an address, with a key in the request: no dots that climb, nothing that ends the path. */
const MODEL_ID = /^(?!.*\.\.)[A-Za-z0-9][\w.:/@-]{0,199}$/;

/** What an agent's definition says of models. */
export interface ModelWishes {
  readonly supported_providers: readonly (LlmProvider | 'any')[];
  /** Provider -> model id. */
  readonly default_models: Readonly<Record<string, string>>;
}

/** A model, with the key to use it. */
export interface ModelChoice {
  readonly provider: LlmProvider;
  readonly model: string;
  /** Absent only for a local model server. */
  readonly apiKey?: string;
}

/** The providers that an agent may use here, in its order of preference. */
export function providersOf({ supported_providers }: ModelWishes, { ollamaUrl }: Deps['config']): LlmProvider[] {
  const named = supported_providers.flatMap((name) => (name === 'any' ? ALL_PROVIDERS : [name]));
  return [...new Set(named)].filter((provider) => provider !== 'ollama' || ollamaUrl !== undefined);
}

/** What a caller may say of the model, in `llm_credentials`. */
interface Credentials {
  readonly api_key?: string;
  readonly provider?: LlmProvider;
  readonly model?: string;
}

/**
 * The models to run an agent with, each with a key: the one that the caller asks for, else one for each of the agent's
 * providers that the workspace has a key for, to fall back on.
 *
 * Throws LLM_KEY_REQUIRED when there is no key for any, INVALID_INPUT for a wish that the agent does not allow,
 * UNPROCESSABLE when the agent's own model is no model id.
 */
export async function chooseModels(
  { vault, config }: Pick<Deps, 'vault' | 'config'>,
  { workspaceId, wishes, credentials = {} }: { workspaceId: string; wishes: ModelWishes; credentials?: Credentials },
): Promise<ModelChoice[]> {
  const supported = providersOf(wishes, config);
  const wanted = wantedProvider(credentials, supported);
  const providers = wanted === undefined ? supported : [wanted];
  const own = wanted !== undefined && credentials.api_key ? { [wanted]: credentials.api_key } : undefined;
  const keys = own ?? (await readKeys(vault, workspaceId, providers));
  const usable = providers.filter((provider) => provider === 'ollama' || keys[provider] !== undefined);
  if (usable.length === 0) throw keyRequired(providers);
  return usable.map((provider, index) => ({
    provider,
    model: modelFor(provider, wishes, index === 0 ? credentials.model : undefined),
    apiKey: keys[provider],
  }));
}

/** The caller's provider: named, or told by the form of the key, or the model's. */
function wantedProvider(
  { api_key, provider, model }: Credentials,
  supported: readonly LlmProvider[],
): LlmProvider | undefined {
  const allowed = supported.join(', ');
  if (provider !== undefined) {
    if (supported.includes(provider)) return provider;
    throw new PlatformError(
      'INVALID_INPUT',
      `"llm_credentials.provider" is ${provider}; this agent may use ${allowed || 'no provider that there is here'}.`,
    );
  }
  if (api_key) {
    const told = providerOfKey(api_key) ?? (supported.length === 1 ? supported[0] : undefined);
    if (told !== undefined && supported.includes(told)) return told;
    throw new PlatformError(
      'INVALID_INPUT',
      told === undefined
        ? `"llm_credentials.provider" must say whose key "llm_credentials.api_key" is: one of ${allowed}.`
        : `"llm_credentials.api_key" is a key of ${PROVIDER_NAMES[told]}; this agent may use ${allowed}.`,
    );
  }
  return supported.find((candidate) => model !== undefined && MODEL_FORMS[candidate]?.test(model));
}

function providerOfKey(key: string): LlmProvider | undefined {
  if (key.startsWith('sk-ant-')) return 'anthropic';
  if (key.startsWith('sk-')) return 'openai';
  return key.startsWith('AIza') ? 'gemini' : undefined;
}

const MODEL_FORMS: { readonly [Provider in LlmProvider]?: RegExp } = {
  anthropic: /^claude-/,
  openai: /^(gpt-|o\d)/,
  gemini: /^gemini-/,
};

type Keys = { readonly [Provider in LlmProvider]?: string };

async function readKeys(vault: Deps['vault'], workspaceId: string, providers: readonly LlmProvider[]): Promise<Keys> {
  const hosted = providers.filter((provider) => provider !== 'ollama');
  if (hosted.length === 0) return {};
  const values = await vault.read(
    workspaceId,
    hosted.map((provider) => KEY_SECRETS[provider]),
  );
  return Object.fromEntries(hosted.map((provider) => [provider, values[KEY_SECRETS[provider]]?.trim() || undefined]));
}

function keyRequired(providers: readonly LlmProvider[]): PlatformError {
  if (providers.length === 0)
    return new PlatformError(
      'LLM_KEY_REQUIRED',
      'This agent runs on a local model server only, and there is none here.',
    );
  const names = either(providers.map((provider) => PROVIDER_NAMES[provider]));
  return new PlatformError(
    'LLM_KEY_REQUIRED',
    `This agent needs an API key of ${names}, and the workspace has no secret ${either(secretNames(providers))}.`,
    { hint: 'Add the secret with PUT /workspaces/{id}/secrets, or send llm_credentials.api_key with the call.' },
  );
}

export const secretNames = (providers: readonly LlmProvider[]): string[] =>
  providers.flatMap((provider) => (provider === 'ollama' ? [] : [KEY_SECRETS[provider]]));

/** `a, b or c`. */
export const either = (names: readonly string[]): string =>
  names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`;

/** Caller, agent, platform: the first that names one (`spec.md`, *Agent manifest*). */
function modelFor(provider: LlmProvider, { default_models }: ModelWishes, wanted: string | undefined): string {
  const model = wanted ?? default_models[provider] ?? DEFAULT_MODELS[provider];
  if (MODEL_ID.test(model)) return model;
  throw wanted === undefined
    ? new PlatformError('UNPROCESSABLE', `The agent's default_models.${provider} is no model id.`)
    : new PlatformError('INVALID_INPUT', '"llm_credentials.model" must be a model id: letters, digits and . _ : / @ -');
}

/** US dollars per million tokens: input, output, input read from the provider's cache. */
type Price = readonly [input: number, output: number, cacheRead: number];

/** The standard prices in November 2026, of prompts of ordinary length: some cost more past 100,000 tokens. */
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

/** Writing the cache costs a quarter more than not to, wherever it is charged. */
const CACHE_WRITE_FACTOR = 1.25;
/** `-20251001`, `-2025-08-07`, `-latest`: the same model at the same price. */
const EDITION = /-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$/;

/** US dollars; `undefined` for a model whose price we do not know. Nobody pays for a model of his own. */
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
