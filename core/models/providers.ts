import type { Config } from '#core/base/config.ts';
import { LLM_PROVIDERS, type LlmProvider, type LlmRequest } from '#core/ports/llm.ts';

/** Names of the providers for messages. */
export const PROVIDER_NAMES: { readonly [Provider in LlmProvider]: string } = {
  anthropic: 'Anthropic',
  openai: 'OpenAI',
  gemini: 'Gemini',
  ollama: 'the local model server',
};

/**
 * Workspace secrets that hold the providers' keys (`docs/interface/calls.md#models`). A local model server needs none.
 */
export const KEY_SECRETS = {
  anthropic: 'ANTHROPIC_API_KEY',
  openai: 'OPENAI_API_KEY',
  gemini: 'GEMINI_API_KEY',
} as const;

/** Providers with keys. */
export const HOSTED_PROVIDERS = ['anthropic', 'openai', 'gemini'] as const satisfies readonly LlmProvider[];

/** Secrets with the address that the key beside them is for (`docs/interface/transports.md`). */
export const ADDRESS_SECRETS = {
  anthropic: 'ANTHROPIC_BASE_URL',
  openai: 'OPENAI_BASE_URL',
  gemini: 'GEMINI_BASE_URL',
} as const;

/** What answers a request, for messages. */
export function answererOf({ provider, transport }: Pick<LlmRequest, 'provider' | 'transport'>): string {
  switch (transport?.via) {
    case 'bedrock':
      return 'Amazon Bedrock';
    case 'azure':
      return 'Azure OpenAI';
    case 'gateway':
      return provider === 'ollama' ? PROVIDER_NAMES.ollama : `the gateway of ${ADDRESS_SECRETS[provider]}`;
    default:
      return PROVIDER_NAMES[provider];
  }
}

/** Suffixes of editions of the same model: `-20251001`, `-2025-08-07`, `-latest`. */
const EDITION = /-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$/;

/** The id of the model that a dated id is an edition of. */
export const withoutEdition = (model: string): string => model.replace(EDITION, '');

/** The part of an agent's definition that chooses models. */
export interface ModelWishes {
  readonly supported_providers: readonly (LlmProvider | 'any')[];
  /** Provider -> model id. */
  readonly default_models: Readonly<Record<string, string>>;
}

/** The providers that an agent may use on this host, in the agent's order. `any` means all, in the order of the list. */
export function providersOf(
  { supported_providers }: ModelWishes,
  { ollamaUrl }: Pick<Config, 'ollamaUrl'>,
): LlmProvider[] {
  const named = supported_providers.flatMap((name) => (name === 'any' ? LLM_PROVIDERS : [name]));
  return [...new Set(named)].filter((provider) => provider !== 'ollama' || ollamaUrl !== undefined);
}

/** Names of the secrets that hold these providers' keys. */
export const secretNames = (providers: readonly LlmProvider[]): string[] =>
  providers.flatMap((provider) => (provider === 'ollama' ? [] : [KEY_SECRETS[provider]]));

/** `a, b or c`. */
export const either = (names: readonly string[]): string =>
  names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`;
