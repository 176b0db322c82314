import {
  type BuiltInProvider,
  isCompatible,
  LLM_PROVIDERS,
  type LlmProvider,
  type LlmRequest,
} from '#core/ports/llm.ts';
import { compatibleOfSecret, settingsSecretOf } from './compatible-providers.ts';
import { anthropic } from './providers/anthropic.ts';
import { gemini } from './providers/gemini.ts';
import { ollama } from './providers/ollama.ts';
import { openai } from './providers/openai.ts';
import { compatibleRow, nameOf } from './providers/openai-compatible.ts';
import type { ProviderRow, ProviderUrls } from './providers/row.ts';

const PROVIDERS: { readonly [Provider in BuiltInProvider]: ProviderRow } = { anthropic, openai, gemini, ollama };

/** Returns the properties of a model provider. */
export const rowOf = (provider: LlmProvider): ProviderRow =>
  isCompatible(provider) ? compatibleRow(provider) : PROVIDERS[provider];

/** Returns the name of the service that answers a request, for messages. */
export function answererOf({ provider, transport }: Pick<LlmRequest, 'provider' | 'transport'>): string {
  const { title, key } = rowOf(provider);
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
 * Returns the providers that an agent may use on this host, in the agent's order. `any` means all that every workspace
 * has, in the order of the list: one that a workspace set up is only used where it is named.
 */
export function providersOf({ supported_providers }: ModelWishes, config: ProviderUrls): LlmProvider[] {
  const named = supported_providers.flatMap((name) => (name === 'any' ? LLM_PROVIDERS : [name]));
  return [...new Set(named)].filter((provider) => {
    const { urlSetting } = rowOf(provider);
    return urlSetting === null || config[urlSetting] !== undefined;
  });
}

/** Whether an agent that may use `supported` may be asked to use this provider. */
export const mayUse = (
  { supported_providers }: ModelWishes,
  supported: readonly LlmProvider[],
  provider: LlmProvider,
): boolean => supported.includes(provider) || (supported_providers.includes('any') && isCompatible(provider));

/** Returns the names of the secrets with the keys of these providers, without providers that need no key. */
export const keySecrets = (providers: readonly LlmProvider[]): string[] =>
  providers.flatMap((provider) => rowOf(provider).key?.secret ?? []);

/** Returns the provider whose key is stored in the secret of this name. */
export const providerOfSecret = (name: string): LlmProvider | undefined =>
  LLM_PROVIDERS.find((provider) => rowOf(provider).key?.secret === name) ?? compatibleOfSecret(name);

/** Returns the name that masked texts show instead of a provider's key. */
export const maskNameOf = (provider: LlmProvider): string =>
  isCompatible(provider) ? settingsSecretOf(nameOf(provider)) : `${provider.toUpperCase()}_API_KEY`;

/** Says where to look for a key that a provider refuses. */
export const keyHint = (provider: LlmProvider): string =>
  isCompatible(provider)
    ? `Check the key in llm_credentials, or set the provider again: platform providers set ${nameOf(provider)}.`
    : 'Check the key in llm_credentials, or the one among the secrets of the workspace.';

/** Joins names as `a, b or c`. */
export const either = (names: readonly string[]): string =>
  names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`;
