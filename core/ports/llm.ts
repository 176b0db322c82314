import type { Json } from '#core/base/json.ts';

/** `gemini` is Google's API; `ollama` is a local model server that speaks OpenAI's chat completions. */
export const LLM_PROVIDERS = ['anthropic', 'openai', 'gemini', 'ollama'] as const;
export type LlmProvider = (typeof LLM_PROVIDERS)[number];

/**
 * One turn of a conversation with a language model, whoever makes it. Conversations lie with the caller; the port keeps
 * nothing.
 */
export interface Llm {
  /**
   * Sends the conversation and answers the model's whole turn. With `onText`, the answer is streamed and each piece of
   * text handed over as it comes.
   *
   * Throws LLM_RATE_LIMITED when the provider refuses the key for now, LLM_ERROR for whatever else fails at the provider
   * or on the way (a broken stream, an answer that is none), and the signal's reason once it is aborted. No error holds
   * the key.
   */
  generate(request: LlmRequest): Promise<LlmAnswer>;
}

export interface LlmRequest {
  readonly provider: LlmProvider;
  readonly model: string;
  /** Absent only for a local model server. */
  readonly apiKey?: string;
  readonly system?: string;
  readonly messages: readonly LlmMessage[];
  readonly tools?: readonly LlmTool[];
  readonly maxOutputTokens: number;
  /** Asks for a JSON object where the provider has a mode for it. */
  readonly json?: boolean;
  readonly signal: AbortSignal;
  readonly onText?: (text: string) => void;
}

export type LlmMessage =
  | { readonly role: 'user'; readonly text: string }
  /** A former turn of the model, as {@link LlmAnswer} had it: `raw` may hold what the provider wants back unchanged. */
  | {
      readonly role: 'assistant';
      readonly text: string;
      readonly toolCalls: readonly LlmToolCall[];
      readonly raw?: unknown;
    }
  | { readonly role: 'tool'; readonly results: readonly LlmToolResult[] };

export interface LlmTool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of an object. */
  readonly inputSchema: Record<string, unknown>;
}

export interface LlmToolCall {
  readonly id: string;
  readonly name: string;
  /** What the model gave; `undefined` when it was not JSON. */
  readonly input: Json | undefined;
}

export interface LlmToolResult {
  readonly id: string;
  readonly name: string;
  readonly text: string;
  readonly isError: boolean;
}

export interface LlmAnswer {
  readonly text: string;
  readonly toolCalls: readonly LlmToolCall[];
  /** `length`: the answer was cut at `maxOutputTokens`. */
  readonly finishReason: 'stop' | 'length' | 'tool_calls' | 'content_filter' | 'other';
  readonly usage: LlmUsage;
  /** The turn as a message, to go on with. */
  readonly message: LlmMessage;
}

export interface LlmUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadTokens?: number;
  readonly cacheWriteTokens?: number;
}
