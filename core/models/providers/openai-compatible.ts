import { COMPATIBLE, type CompatibleProvider } from '#core/ports/llm.ts';
import { CHAT_SERVER, type ProviderRow } from './row.ts';

/** A provider that is known by its name. */
export interface Preset {
  readonly title: string;
  /** Where its API is. Absent: each workspace gives the address of its own server. */
  readonly url?: string;
  /** Whether it is a server of the workspace's own, which charges nothing. @default false */
  readonly isFree?: true;
}

/** Presets by name: `openai-compatible:groq` needs a key only. */
export const PRESETS: { readonly [name: string]: Preset } = {
  openrouter: { title: 'OpenRouter', url: 'https://openrouter.ai/api/v1' },
  deepseek: { title: 'DeepSeek', url: 'https://api.deepseek.com/v1' },
  groq: { title: 'Groq', url: 'https://api.groq.com/openai/v1' },
  mistral: { title: 'Mistral', url: 'https://api.mistral.ai/v1' },
  together: { title: 'Together', url: 'https://api.together.xyz/v1' },
  vllm: { title: 'vLLM', isFree: true },
  'lm-studio': { title: 'LM Studio', isFree: true },
};

/** Returns the preset of this name; `undefined` for a name that a workspace chose. */
export const presetOf = (name: string): Preset | undefined =>
  Object.hasOwn(PRESETS, name) ? PRESETS[name] : undefined;

/** Returns the name of the provider in its workspace: `groq` for `openai-compatible:groq`. */
export const nameOf = (provider: CompatibleProvider): string => provider.slice(COMPATIBLE.length + 1);

/** Abbreviates all providers of this kind together in stored totals. */
export const COMPATIBLE_COST_LETTER = 'c';

/** Row of a provider that a workspace has set up. */
export function compatibleRow(provider: CompatibleProvider): ProviderRow {
  const name = nameOf(provider);
  const preset = presetOf(name);
  return {
    ...CHAT_SERVER,
    title: preset?.title ?? `the provider "${name}"`,
    urlSetting: null,
    hasPrices: preset?.isFree !== true,
    costLetter: COMPATIBLE_COST_LETTER,
    settings: {
      stop: true,
      seed: true,
      parallelToolCalls: true,
      // Many of these APIs refuse an effort for a model that has none.
      unknownModels: { efforts: [], temperature: 'always' },
    },
  };
}
