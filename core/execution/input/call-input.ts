import type { Json } from '#core/base/json.ts';
import type { ModelSettings } from '#core/models/model-settings.ts';
import type { LlmProvider } from '#core/ports/llm.ts';

/** A caller's own provider, model and key for this call. The key is never stored, logged or shown. */
export interface LlmCredentials {
  readonly api_key?: string;
  readonly provider?: LlmProvider;
  readonly model?: string;
  /** Values of the settings that the agent's author lets callers change. */
  readonly settings?: ModelSettings;
}

/** An uploaded file of the call, with its path in the agent's sandbox. */
export interface Upload {
  readonly path: string;
  /** File name sent by the client. */
  readonly name: string;
  /** Content type sent by the client. */
  readonly contentType: string;
  readonly content: Uint8Array;
}

/** The input of a call (`docs/interface/calls.md#input`). */
export interface CallInput {
  /** The agent's stdin, also shown in the run's record, without the reserved member `llm_credentials`. */
  readonly document: { readonly [member: string]: Json };
  readonly uploads: readonly Upload[];
  readonly isMultipart: boolean;
  readonly llmCredentials?: LlmCredentials;
}

/** Folder with the uploads in the agent's sandbox. */
export const UPLOAD_FOLDER = '/tmp/uploads';
