import { type ErrorCode, type ErrorExtra, isPlatformError, PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { memoizeWeak } from '#core/base/memoize-weak.ts';
import type { TraceHeaders } from '#core/base/trace-context.ts';

/** `gemini` is Google's API; `ollama` is a local model server that speaks OpenAI's chat completions. */
export const LLM_PROVIDERS = ['anthropic', 'openai', 'gemini', 'ollama'] as const;
export type BuiltInProvider = (typeof LLM_PROVIDERS)[number];

/** A provider that a workspace sets up: any API that speaks OpenAI's chat completions. */
export const COMPATIBLE = 'openai-compatible';
export type CompatibleProvider = `${typeof COMPATIBLE}:${string}`;
export type LlmProvider = BuiltInProvider | CompatibleProvider;

/** Name of a {@link CompatibleProvider} in its workspace: at most 40 characters. */
export const COMPATIBLE_NAME = /^(?=.{1,40}$)[a-z0-9]+(-[a-z0-9]+)*$/;

export const isCompatible = (provider: string): provider is CompatibleProvider =>
  provider.startsWith(`${COMPATIBLE}:`) && COMPATIBLE_NAME.test(provider.slice(COMPATIBLE.length + 1));

export const isLlmProvider = (text: string): text is LlmProvider =>
  (LLM_PROVIDERS as readonly string[]).includes(text) || isCompatible(text);

/** Providers by API: all providers that workspaces set up are of one kind. */
export const PROVIDER_KINDS = [...LLM_PROVIDERS, COMPATIBLE] as const;
export type ProviderKind = (typeof PROVIDER_KINDS)[number];

export const kindOf = (provider: LlmProvider): ProviderKind => (isBuiltIn(provider) ? provider : COMPATIBLE);

const isBuiltIn = (provider: LlmProvider): provider is BuiltInProvider => !provider.startsWith(`${COMPATIBLE}:`);

/** The providers that manifests, schedules and calls may name, for messages. */
export const PROVIDER_NAMES = [...LLM_PROVIDERS, `${COMPATIBLE}:<name>`].join(', ');

/** Reasoning effort of a model, in ascending order. Each model supports some of these. */
export const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
export type Effort = (typeof EFFORTS)[number];

export type JsonSchema = Readonly<Record<string, unknown>>;

/** A language model port. It is stateless: the caller stores the conversation. */
export interface Llm {
  /**
   * Sends the conversation once and returns the model's complete turn. With `onText`, the answer is streamed and
   * `onText` gets its text in chunks, which need not match those of the provider.
   *
   * Throws an {@link LlmFailure} for any failure of the provider or the network, and the signal's reason once it is
   * aborted. No error contains the key.
   */
  generate(request: LlmRequest): Promise<LlmAnswer>;
}

/**
 * Kind of a failed request, which decides about retries (`docs/interface/calls.md#models-that-fail`):
 *
 * - `transient`: the same request may succeed later. LLM_RATE_LIMITED or LLM_ERROR.
 * - `unreadable`: status 200 with a body that is not an answer; retried at most once. LLM_ERROR.
 * - `quota`: the quota of the key's account is exhausted. LLM_RATE_LIMITED, not retryable.
 * - `overflow`: the conversation exceeds the context window. UNPROCESSABLE.
 * - `key`: the provider refuses the key. LLM_KEY_REQUIRED.
 * - `refused`: any other failure that would repeat. LLM_ERROR, not retryable.
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
  /** How long the provider asks clients to wait before a retry. */
  readonly retryAfterMs: number | undefined;
  /** Maximum output tokens for this request, if the requested limit was the only fault. */
  readonly maxOutputTokens: number | undefined;
  /** Whether an `only` message may have been the only fault. */
  readonly refusesOnly: boolean;
  /** Whether the provider refused the form of a schema: the next attempt of the same request uses a weaker form. */
  readonly isSchemaRefusal: boolean;
  /** Whether the settings of the request (`effort`, `temperature` and others) may have been the fault. */
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

/** Does not use `instanceof`, which fails between bundles. */
export const isLlmFailure = (error: unknown): error is LlmFailure => isPlatformError(error) && 'kind' in error;

/** Whether the conversation exceeds the model's context window. */
export const isOverflow = (error: unknown): boolean => isLlmFailure(error) && error.kind === 'overflow';

/** Route to a model other than its provider's own API (`docs/interface/transports.md`). */
export type LlmTransport =
  /** Amazon Bedrock, with the platform's own credentials. `model` is Bedrock's id of the model. */
  | { readonly via: 'bedrock'; readonly region: string; readonly model: string }
  /** Azure OpenAI. `model` is the deployment, `auth` the header that carries the key. */
  | { readonly via: 'azure'; readonly url: string; readonly auth: 'api-key' | 'bearer'; readonly model: string }
  /** The address that the workspace set with its key. */
  | { readonly via: 'gateway'; readonly url: string };

export interface LlmRequest {
  readonly provider: LlmProvider;
  /** The platform's id of the model; a transport may use another. */
  readonly model: string;
  /** @default - the provider's own API */
  readonly transport?: LlmTransport;
  /** Absent only for a local model server, and with the platform's own credentials. */
  readonly apiKey?: string;
  readonly system?: string;
  readonly messages: readonly LlmMessage[];
  readonly tools?: readonly LlmTool[];
  /** Whether the model supports a forced tool choice (`ModelFacts`). @default - unknown */
  readonly canBeForced?: boolean;
  /** Thoughts included. */
  readonly maxOutputTokens: number;
  /** Reasoning effort that the model supports. @default - the provider's */
  readonly effort?: Effort;
  /** These settings are omitted, with a warning in the answer, if the provider does not support them. */
  readonly temperature?: number;
  readonly stop?: readonly string[];
  readonly seed?: number;
  /** Whether an answer may call several tools. @default - the provider's */
  readonly parallelToolCalls?: boolean;
  /** Asks for the model's thoughts: only for models that show them without more reasoning. */
  readonly thoughts?: boolean;
  /** Cache hints for input that later requests repeat. @default - none */
  readonly cache?: LlmCache;
  /** Asks for a JSON object if the provider has a mode for it. */
  readonly json?: boolean;
  /**
   * JSON Schema of the object that the answer's text should contain. It is sent in the strictest form that the provider
   * supports (`docs/models.md#schemas`). Answers may still not match, and have null for omitted members.
   */
  readonly outputSchema?: JsonSchema;
  /** Headers that name the span of the request. @default - nobody traces it */
  readonly traceHeaders?: TraceHeaders | undefined;
  readonly signal: AbortSignal;
  readonly onText?: (text: string) => void;
  /** Receives the thoughts of a streamed answer if the provider shows them. */
  readonly onThought?: (text: string) => void;
  /** Called with the name of each tool that a streamed answer calls, as soon as it is known. */
  readonly onTool?: (name: string) => void;
  /** Called when the request is completely sent, and then for each chunk of the answer, even one without text. */
  readonly onSign?: (sign: 'sent' | 'received') => void;
  /** Called with the estimated tokens of an answer that broke off, because providers charge for them. */
  readonly onBroken?: (usage: LlmUsage) => void;
}

/** Input that later requests repeat (`docs/models.md#caching`). */
export interface LlmCache {
  /** Shared by requests with the same prefix. At most 64 characters. */
  readonly key: string;
  /**
   * Part that a request will soon repeat: the `shared` text of the first message, or the whole conversation with its
   * next turn. Caching it may cost extra. @default - nothing
   */
  readonly again?: 'shared' | 'conversation';
  /** Minimum number of tokens that the provider caches for this model. @default 1024 */
  readonly fromTokens?: number;
}

/**
 * A file in a conversation: an image, a PDF or a recording, of a type that the model accepts. Its bytes are sent, never
 * a URL.
 */
export interface LlmFile {
  /** Letters, digits, `.`, `_` and `-`. */
  readonly name: string;
  readonly mediaType: string;
  readonly bytes: Uint8Array;
}

export type LlmMessage =
  /** `shared` comes first, as a separate part, because other requests begin with it, too. Files come before `text`. */
  | { readonly role: 'user'; readonly shared?: string; readonly files?: readonly LlmFile[]; readonly text: string }
  /**
   * An earlier turn of the model, from {@link LlmAnswer}. `raw` may hold data that the provider requires back
   * unchanged.
   */
  | {
      readonly role: 'assistant';
      readonly text: string;
      readonly toolCalls: readonly LlmToolCall[];
      readonly raw?: unknown;
    }
  | { readonly role: 'tool'; readonly results: readonly LlmToolResult[] }
  /**
   * From here on, the model must call this tool and no other, if the provider can enforce it: the
   * model may still call another. Follows a user message or results. Earlier messages stay unchanged.
   */
  | { readonly role: 'only'; readonly tool: string };

export interface LlmTool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of an object. */
  readonly inputSchema: JsonSchema;
  /**
   * Asks the provider to enforce the schema, if it can. Parameters may still not match, and have null for omitted
   * members.
   */
  readonly isStrict?: boolean;
}

/** A tool as JSON text, to measure its size. */
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
  /** Sent with the text; absent if `isError`. */
  readonly files?: readonly LlmFile[];
}

export interface LlmAnswer {
  readonly text: string;
  readonly toolCalls: readonly LlmToolCall[];
  /** `length`: the answer was cut at `maxOutputTokens`; `window`: it was cut because the context window was full. */
  readonly finishReason: 'stop' | 'length' | 'window' | 'tool_calls' | 'content_filter' | 'other';
  readonly usage: LlmUsage;
  /** The turn as a message, for the next request. */
  readonly message: LlmMessage;
  /**
   * Sentences about settings that were omitted or changed because the provider does not support them. Absent if there
   * are none.
   */
  readonly warnings?: readonly string[];
}

export interface LlmUsage {
  /** Includes tokens read from or written to a cache. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadTokens?: number;
  readonly cacheWriteTokens?: number;
}
