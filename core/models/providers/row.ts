import type { Config } from '#core/base/config.ts';
import type { Effort, LlmProvider } from '#core/ports/llm.ts';
import type { ModelInput } from '#core/ports/model-table.ts';

/** What the platform knows of a provider of models: everything but its wire, which is in `adapters/llm/providers`. */
export interface ProviderRow {
  /** The provider's name in messages. */
  readonly title: string;
  /** The setting that holds the base URL; without a value, this platform does not have the provider. */
  readonly urlSetting: `${LlmProvider}Url`;
  /** `null` for a provider that needs no key. */
  readonly key: ProviderKey | null;
  /** Used where neither the caller nor the agent names a model (`docs/interface/calls.md#models`). */
  readonly defaultModel: string;
  /** Model ids by which a call without a provider is recognized. @default - none */
  readonly ownModels?: RegExp;
  /** Valid model ids. An id becomes part of a URL that is requested with a key: no `..`, nothing that ends the path. */
  readonly modelId: RegExp;
  /** Whether the table of models has prices for it. A provider without prices costs nothing. */
  readonly hasPrices: boolean;
  /** Stands for the provider in the names of stored sums (`core/runs/usage/costs.ts`): never change or reuse it. */
  readonly costLetter: string;
  /** How long the provider may send nothing during an answer, in milliseconds (`docs/interface/calls.md#tries`). */
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
  /** Keys that are recognized as this provider's. */
  readonly form: RegExp;
}

/** Limits of files, as the providers document them (`docs/models.md#files`). */
export interface FileLimits {
  /** Media types. */
  readonly image: readonly string[];
  readonly pdf: readonly string[];
  readonly audio: readonly string[];
  /** What a model takes that is not in the table of models. */
  readonly usualInputs: readonly ModelInput[];
  /** Bytes of one image. */
  readonly imageBytes?: number;
  /** Pixels on each side of an image; the second limit applies to requests with more than 20 images. */
  readonly imagePixels?: readonly [few: number, many: number];
  /** Images in one request, for models with a large and with a small context window. */
  readonly images?: readonly [large: number, small: number];
  /** PDF pages in one request, for models with a large and with a small context window; the second applies to Bedrock, too. */
  readonly pages?: readonly [large: number, small: number];
}

/** Which settings the provider takes (`docs/models.md#settings`). */
export interface SettingSupport {
  readonly stop: boolean;
  readonly seed: boolean;
  readonly parallelToolCalls: boolean;
  /** For models that are not in the table of models. */
  readonly unknownModels: { readonly efforts: readonly Effort[]; readonly temperature: 'always' | 'never' };
}

/** Model ids of most providers. */
export const MODEL_ID = /^(?!.*\.\.)[A-Za-z0-9][\w.:/@-]{0,199}$/;

/** A provider's settings in the platform's configuration. */
export type ProviderUrls = Pick<Config, ProviderRow['urlSetting']>;
