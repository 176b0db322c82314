import { LLM_PROVIDERS, type LlmProvider, type LlmRequest } from '#core/ports/llm.ts';
import { anthropic } from './providers/anthropic.ts';
import { gemini } from './providers/gemini.ts';
import { ollama } from './providers/ollama.ts';
import { openai } from './providers/openai.ts';
import type { ProviderRow, ProviderUrls } from './providers/row.ts';

/** Properties of each model provider. */
export const PROVIDERS: { readonly [Provider in LlmProvider]: ProviderRow } = { anthropic, openai, gemini, ollama };

/** Returns the name of the service that answers a request, for messages. */
export function answererOf({ provider, transport }: Pick<LlmRequest, 'provider' | 'transport'>): string {
  const { title, key } = PROVIDERS[provider];
  switch (transport?.via) {
    case 'bedrock':
      return 'Amazon Bedrock';
    case 'azure':
      return 'Azure OpenAI';
    case 'gateway':
      return key === null ? title : `the gateway of ${key.addressSecret}`;
    default:
      return title;
  }
}

/** Suffixes of editions of the same model: `-20251001`, `-2025-08-07`, `-latest`. */
const EDITION = /-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$/;

/** Removes the edition from a dated model id. */
export const withoutEdition = (model: string): string => model.replace(EDITION, '');

/** The part of an agent's definition that chooses models. */
export interface ModelWishes {
  readonly supported_providers: readonly (LlmProvider | 'any')[];
  /** Provider -> model id. */
  readonly default_models: Readonly<Record<string, string>>;
}

/**
 * Returns the providers that an agent may use on this host, in the agent's order. `any` means all, in the order of the
 * list.
 */
export function providersOf({ supported_providers }: ModelWishes, config: ProviderUrls): LlmProvider[] {
  const named = supported_providers.flatMap((name) => (name === 'any' ? LLM_PROVIDERS : [name]));
  return [...new Set(named)].filter((provider) => config[PROVIDERS[provider].urlSetting] !== undefined);
}

/** Returns the names of the secrets with the keys of these providers, without providers that need no key. */
export const keySecrets = (providers: readonly LlmProvider[]): string[] =>
  providers.flatMap((provider) => PROVIDERS[provider].key?.secret ?? []);

/** Returns the provider whose key is stored in the secret of this name. */
export const providerOfSecret = (name: string): LlmProvider | undefined =>
  LLM_PROVIDERS.find((provider) => PROVIDERS[provider].key?.secret === name);

/** Joins names as `a, b or c`. */
export const either = (names: readonly string[]): string =>
  names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`;
