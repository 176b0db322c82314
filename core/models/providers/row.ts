import type { Config } from '#core/base/config.ts';
import type { BuiltInProvider, Effort } from '#core/ports/llm.ts';
import type { ModelInput } from '#core/ports/model-table.ts';

/**
 * Everything that the platform knows about a model provider, except its wire format, which is in
 * `adapters/llm/providers`.
 */
export interface ProviderRow {
  /** The provider's name in messages. */
  readonly title: string;
  /**
   * Setting with the base URL; without a value, the provider is unavailable on this platform. `null` for a provider that
   * workspaces set up.
   */
  readonly urlSetting: `${BuiltInProvider}Url` | null;
  /** `null` for a provider that needs no key, or whose key is part of a workspace's settings. */
  readonly key: ProviderKey | null;
  /** Used if neither the caller nor the agent names a model (`docs/interface/calls.md#models`). @default - none */
  readonly defaultModel?: string;
  /** Model ids that identify the provider in a call without one. @default - none */
  readonly ownModels?: RegExp;
  /**
   * Valid model ids. An id becomes part of a URL that is requested with a key, so it must not contain `..` or anything
   * that ends the path.
   */
  readonly modelId: RegExp;
  /** Whether the model table has prices for it. A provider without prices costs nothing. */
  readonly hasPrices: boolean;
  /** Abbreviates the provider in the names of stored totals (`core/runs/usage/costs.ts`): never change or reuse it. */
  readonly costLetter: string;
  /** Idle timeout during an answer, in milliseconds (`docs/interface/calls.md#tries`). */
  readonly silenceMs: number;
  readonly files: FileLimits;
  readonly settings: SettingSupport;
}

export interface ProviderKey {
  /** The workspace secret that holds the key (`docs/interface/calls.md#models`). */
  readonly secret: string;
  /** The workspace secret with the address that the key is for (`docs/interface/transports.md`). */
  readonly addressSecret: string;
  /** The API version that the provider's own libraries append to such an address. @default - none */
  readonly addressVersion?: string;
  /** Format of the provider's keys, used to recognize them. */
  readonly form: RegExp;
}

/** Limits of files, as the providers document them (`docs/models.md#files`). */
export interface FileLimits {
  /** Media types. */
  readonly image: readonly string[];
  readonly pdf: readonly string[];
  readonly audio: readonly string[];
  /** Assumed input types of models that are not in the model table. */
  readonly usualInputs: readonly ModelInput[];
  /** Maximum bytes of one image. */
  readonly imageBytes?: number;
  /** Maximum pixels on each side of an image; the second limit applies to requests with more than 20 images. */
  readonly imagePixels?: readonly [few: number, many: number];
  /** Maximum images in one request, for models with a large and with a small context window. */
  readonly images?: readonly [large: number, small: number];
  /**
   * Maximum PDF pages in one request, for models with a large and with a small context window; the second also applies
   * to Bedrock.
   */
  readonly pages?: readonly [large: number, small: number];
}

/** Settings that the provider supports (`docs/models.md#settings`). */
export interface SettingSupport {
  readonly stop: boolean;
  readonly seed: boolean;
  readonly parallelToolCalls: boolean;
  /** Assumed for models that are not in the model table. */
  readonly unknownModels: { readonly efforts: readonly Effort[]; readonly temperature: 'always' | 'never' };
}

/** Format of model ids of most providers. */
export const MODEL_ID = /^(?!.*\.\.)[A-Za-z0-9][\w.:/@-]{0,199}$/;

/** What the rows of all model servers that speak OpenAI's chat completions share. */
export const CHAT_SERVER = {
  key: null,
  modelId: MODEL_ID,
  silenceMs: 180_000,
  // Limits that such servers share. PDFs are only for models that the model table lists as reading them.
  files: {
    image: ['image/png', 'image/jpeg', 'image/gif', 'image/webp'],
    pdf: ['application/pdf'],
    audio: ['audio/wav', 'audio/mpeg'],
    usualInputs: ['image'],
  },
} as const satisfies Partial<ProviderRow>;

/** Base URLs of the providers in the platform's configuration. */
export type ProviderUrls = Pick<Config, NonNullable<ProviderRow['urlSetting']>>;
