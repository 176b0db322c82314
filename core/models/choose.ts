import { PlatformError } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { LlmProvider } from '#core/ports/llm.ts';
import { either, KEY_SECRETS, type ModelWishes, PROVIDER_NAMES, providersOf, secretNames } from './providers.ts';

/** A model to ask, with the key for it. */
export interface ModelChoice {
  readonly provider: LlmProvider;
  readonly model: string;
  /** Absent only for a local model server. */
  readonly apiKey?: string;
}

/** Used where neither the caller nor the agent names a model (`docs/interface/calls.md#models`). */
const DEFAULT_MODELS: { readonly [Provider in LlmProvider]: string } = {
  anthropic: 'claude-sonnet-5-5',
  openai: 'gpt-6-sol',
  gemini: 'gemini-3.8-flash',
  ollama: 'llama3.2',
};

/** A model id becomes part of a URL that is requested with a key: no `..`, nothing that ends the path. */
const MODEL_ID = /^(?!.*\.\.)[A-Za-z0-9][\w.:/@-]{0,199}$/;

/** A caller's `llm_credentials`. */
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

/** Caller, agent, platform: the first that names one (`docs/interface/calls.md#models`). */
function modelFor(provider: LlmProvider, { default_models }: ModelWishes, wanted: string | undefined): string {
  const model = wanted ?? default_models[provider] ?? DEFAULT_MODELS[provider];
  if (MODEL_ID.test(model)) return model;
  throw wanted === undefined
    ? new PlatformError('UNPROCESSABLE', `The agent's default_models.${provider} is no model id.`)
    : new PlatformError('INVALID_INPUT', '"llm_credentials.model" must be a model id: letters, digits and . _ : / @ -');
}
