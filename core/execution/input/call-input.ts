import type { Json } from '#core/base/json.ts';
import type { ModelSettings } from '#core/models/model-settings.ts';
import type { LlmProvider } from '#core/ports/llm.ts';

/** A caller's own provider, model and key for this call. The key is never stored, logged or shown. */
export interface LlmCredentials {
  readonly api_key?: string;
  readonly provider?: LlmProvider;
  readonly model?: string;
  /** Of the settings that the agent's author leaves to callers. */
  readonly settings?: ModelSettings;
}

/** A file of the call, with its path in the agent's sandbox. */
export interface Upload {
  readonly path: string;
  /** The client's name for it. */
  readonly name: string;
  /** As the client said. */
  readonly contentType: string;
  readonly content: Uint8Array;
}

/** The input of a call (`docs/interface/calls.md#input`). */
export interface CallInput {
  /** The agent's stdin, also shown in the run's record. Without the reserved member `llm_credentials`. */
  readonly document: { readonly [member: string]: Json };
  readonly uploads: readonly Upload[];
  readonly isMultipart: boolean;
  readonly llmCredentials?: LlmCredentials;
}

/** Where the agent finds its uploads. */
export const UPLOAD_FOLDER = '/tmp/uploads';
