import type { LlmProvider } from '#core/ports/llm.ts';
import { anthropic } from './providers/anthropic.ts';
import type { ProviderApi } from './providers/api.ts';
import { gemini } from './providers/gemini.ts';
import { ollama } from './providers/ollama.ts';
import { openai } from './providers/openai.ts';

/** One row per provider; `core/models/providers.ts` has the properties that do not depend on the wire format. */
export const PROVIDER_APIS: { readonly [Provider in LlmProvider]: ProviderApi } = { anthropic, openai, gemini, ollama };
