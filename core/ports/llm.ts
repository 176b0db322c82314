import { type ErrorCode, type ErrorExtra, isPlatformError, PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { memoizeWeak } from '#core/base/memoize-weak.ts';

/** `gemini` is Google's API; `ollama` is a local model server that speaks OpenAI's chat completions. */
export const LLM_PROVIDERS = ['anthropic', 'openai', 'gemini', 'ollama'] as const;
export type LlmProvider = (typeof LLM_PROVIDERS)[number];

/** How much a model is told to think, from the least to the most. Each model takes some of these. */
export const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
export type Effort = (typeof EFFORTS)[number];

export type JsonSchema = Readonly<Record<string, unknown>>;

/** One turn of a conversation with a language model. The caller keeps the conversation; the port keeps no state. */
export interface Llm {
  /**
   * Sends the conversation once and returns the model's whole turn. With `onText`, the answer is streamed and `onText`
   * gets its text in pieces, which may be more or fewer than the provider sent.
   *
   * Throws an {@link LlmFailure} for whatever fails at the provider or on the network, and the signal's reason once it is
   * aborted. No error contains the key.
   */
  generate(request: LlmRequest): Promise<LlmAnswer>;
}

/**
 * What a failed request allows (`docs/interface/calls.md#models-that-fail`):
 *
 * - `transient`: the same request may succeed later. LLM_RATE_LIMITED or LLM_ERROR.
 * - `unreadable`: status 200 with something that is no answer; once more at most. LLM_ERROR.
 * - `quota`: what the key's account may use is used up. LLM_RATE_LIMITED, not retryable.
 * - `overflow`: the conversation is longer than the model reads. UNPROCESSABLE.
 * - `key`: the provider refuses the key. LLM_KEY_REQUIRED.
 * - `refused`: anything else that fails again. LLM_ERROR, not retryable.
 */
export type LlmFailureKind = 'transient' | 'unreadable' | 'quota' | 'overflow' | 'key' | 'refused';

const FAILURE_CODES: { readonly [Kind in LlmFailureKind]: ErrorCode } = {
  transient: 'LLM_ERROR',
  unreadable: 'LLM_ERROR',
  quota: 'LLM_RATE_LIMITED',
  overflow: 'UNPROCESSABLE',
  key: 'LLM_KEY_REQUIRED',
  refused: 'LLM_ERROR',
};

/** A request that a provider did not answer. */
export class LlmFailure extends PlatformError {
  readonly kind: LlmFailureKind;
  /** How long the provider wants no further request. */
  readonly retryAfterMs: number | undefined;
  /** The highest limit of output tokens that this request may have, if that is all that was wrong. */
  readonly maxOutputTokens: number | undefined;
  /** Whether an `only` message may be all that was wrong. */
  readonly refusesOnly: boolean;
  /** Whether the provider did not take the form of a schema: the same request has it in a weaker one from now on. */
  readonly isSchemaRefusal: boolean;
  /** Whether the settings of the request (`effort`, `temperature` and the like) may be what was wrong. */
  readonly refusesSettings: boolean;

  constructor(
    kind: LlmFailureKind,
    message: string,
    {
      hint,
      isRateLimit = false,
      retryAfterMs,
      maxOutputTokens,
      refusesOnly = false,
      isSchemaRefusal = false,
      refusesSettings = false,
    }: {
      readonly hint?: string;
      readonly isRateLimit?: boolean;
      readonly retryAfterMs?: number;
      readonly maxOutputTokens?: number;
      readonly refusesOnly?: boolean;
      readonly isSchemaRefusal?: boolean;
      readonly refusesSettings?: boolean;
    } = {},
  ) {
    const extra: ErrorExtra = {
      ...(hint !== undefined && { hint }),
      ...(retryAfterMs !== undefined && { suggested_wait_time: Math.ceil(retryAfterMs / 1000) }),
      ...((kind === 'quota' || kind === 'refused') && { is_retryable: false as const }),
    };
    super(isRateLimit ? 'LLM_RATE_LIMITED' : FAILURE_CODES[kind], message, extra);
    this.kind = kind;
    this.retryAfterMs = retryAfterMs;
    this.maxOutputTokens = maxOutputTokens;
    this.refusesOnly = refusesOnly;
    this.isSchemaRefusal = isSchemaRefusal;
    this.refusesSettings = refusesSettings;
  }
}

/** Not `instanceof`, which fails between bundles. */
export const isLlmFailure = (error: unknown): error is LlmFailure => isPlatformError(error) && 'kind' in error;

/** Whether the conversation is longer than the model reads. */
export const isOverflow = (error: unknown): boolean => isLlmFailure(error) && error.kind === 'overflow';

/** How a model is reached, if not by its provider's own API (`docs/interface/transports.md`). */
export type LlmTransport =
  /** Amazon Bedrock, with the platform's own credentials. `model` is the id there. */
  | { readonly via: 'bedrock'; readonly region: string; readonly model: string }
  /** Azure OpenAI. `model` is the deployment, `auth` the header of the key. */
  | { readonly via: 'azure'; readonly url: string; readonly auth: 'api-key' | 'bearer'; readonly model: string }
  /** The address that the workspace set beside its key. */
  | { readonly via: 'gateway'; readonly url: string };

export interface LlmRequest {
  readonly provider: LlmProvider;
  /** The platform's id of it: a transport may have another. */
  readonly model: string;
  /** @default - the provider's own API */
  readonly transport?: LlmTransport;
  /** Absent only for a local model server, and where the platform's own credentials are used. */
  readonly apiKey?: string;
  readonly system?: string;
  readonly messages: readonly LlmMessage[];
  readonly tools?: readonly LlmTool[];
  /** Whether the model takes a forced choice of a tool (`ModelFacts`). @default - not known */
  readonly canBeForced?: boolean;
  /** Thoughts included. */
  readonly maxOutputTokens: number;
  /** How much to think: one of those that the model takes. @default - the provider's */
  readonly effort?: Effort;
  /** These are left out, with a warning in the answer, where the provider has nothing like them. */
  readonly temperature?: number;
  readonly stop?: readonly string[];
  readonly seed?: number;
  /** Whether one answer may call several tools. @default - the provider's */
  readonly parallelToolCalls?: boolean;
  /** Asks for the model's thoughts: only for models that show them without thinking more. */
  readonly thoughts?: boolean;
  /** What providers are told about input that comes again, to read it from their caches. @default - nothing */
  readonly cache?: LlmCache;
  /** Asks for a JSON object where the provider has a mode for it. */
  readonly json?: boolean;
  /**
   * JSON Schema of an object, which the answer's text is to be. It is told in the form that binds the model most of those
   * that the provider takes (`docs/models.md#schemas`): answers may still not match, and have null for members left out.
   */
  readonly outputSchema?: JsonSchema;
  readonly signal: AbortSignal;
  readonly onText?: (text: string) => void;
  /** Gets the thoughts of a streamed answer, as far as the provider shows them. */
  readonly onThought?: (text: string) => void;
  /** Told the name of each tool that a streamed answer calls, as soon as it is known. */
  readonly onTool?: (name: string) => void;
  /** Called once the whole request is sent, and then for every piece of the answer that arrives, also one without text. */
  readonly onSign?: (sign: 'sent' | 'received') => void;
  /** Told the tokens of an answer that began and did not end: by estimate, as providers charge for them. */
  readonly onBroken?: (usage: LlmUsage) => void;
}

/** Input that later requests repeat (`docs/models.md#caching`). */
export interface LlmCache {
  /** Requests that begin alike have the same one. At most 64 characters. */
  readonly key: string;
  /**
   * What certainly comes again soon: the `shared` text of the first message, or the whole conversation, with its next
   * turn. Keeping it may have a price. @default - nothing
   */
  readonly again?: 'shared' | 'conversation';
  /** Tokens from which the provider keeps anything of this model. @default 1024 */
  readonly fromTokens?: number;
}

/**
 * A file in a conversation: an image, a PDF or a recording, of a type that the model takes. It is sent as it is, never as
 * an address.
 */
export interface LlmFile {
  /** Letters, digits, `.`, `_` and `-`. */
  readonly name: string;
  readonly mediaType: string;
  readonly bytes: Uint8Array;
}

export type LlmMessage =
  /** `shared` comes first, in a part of its own: other requests begin with it, too. Files come before `text`. */
  | { readonly role: 'user'; readonly shared?: string; readonly files?: readonly LlmFile[]; readonly text: string }
  /** An earlier turn of the model, from {@link LlmAnswer}. `raw` may hold what the provider wants back unchanged. */
  | {
      readonly role: 'assistant';
      readonly text: string;
      readonly toolCalls: readonly LlmToolCall[];
      readonly raw?: unknown;
    }
  | { readonly role: 'tool'; readonly results: readonly LlmToolResult[] }
  /**
   * From here on, this is the only tool that may be called, and it must be, as far as the provider has a means for that: a
   * model may call another one nevertheless. Stands behind a user message or results. Nothing before it changes.
   */
  | { readonly role: 'only'; readonly tool: string };

export interface LlmTool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of an object. */
  readonly inputSchema: JsonSchema;
  /**
   * Asks the provider to hold the model to the schema, if it can. Parameters may still not match, and have null for members
   * left out.
   */
  readonly isStrict?: boolean;
}

/** A tool as text, for its size. */
export const toolJson: (tool: LlmTool) => string = memoizeWeak(JSON.stringify);

export interface LlmToolCall {
  readonly id: string;
  readonly name: string;
  /** Arguments from the model; `undefined` if they were not JSON. */
  readonly input: Json | undefined;
}

export interface LlmToolResult {
  readonly id: string;
  readonly name: string;
  readonly text: string;
  readonly isError: boolean;
  /** Beside the text; absent if `isError`. */
  readonly files?: readonly LlmFile[];
}

export interface LlmAnswer {
  readonly text: string;
  readonly toolCalls: readonly LlmToolCall[];
  /** `length`: the answer was cut at `maxOutputTokens`; `window`: because the model's window was full. */
  readonly finishReason: 'stop' | 'length' | 'window' | 'tool_calls' | 'content_filter' | 'other';
  readonly usage: LlmUsage;
  /** The turn as a message, for the next request. */
  readonly message: LlmMessage;
  /** What of the request was left out or changed because the provider does not take it: sentences. Absent if nothing was. */
  readonly warnings?: readonly string[];
}

export interface LlmUsage {
  /** With those that were read from a cache or written to it. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadTokens?: number;
  readonly cacheWriteTokens?: number;
}
