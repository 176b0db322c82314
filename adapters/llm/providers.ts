import { kindOf, type LlmProvider, type ProviderKind } from '#core/ports/llm.ts';
import { anthropic } from './providers/anthropic.ts';
import type { ProviderApi } from './providers/api.ts';
import { gemini } from './providers/gemini.ts';
import { ollama } from './providers/ollama.ts';
import { openai } from './providers/openai.ts';
import { openaiCompatible } from './providers/openai-compatible.ts';

/** One row per provider; `core/models/providers.ts` has the properties that do not depend on the wire format. */
const PROVIDER_APIS: { readonly [Kind in ProviderKind]: ProviderApi } = {
  anthropic,
  openai,
  gemini,
  ollama,
  'openai-compatible': openaiCompatible,
};

/** Returns the row of a provider. */
export const apiOf = (provider: LlmProvider): ProviderApi => PROVIDER_APIS[kindOf(provider)];
