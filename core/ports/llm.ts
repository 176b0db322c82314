import type { Json } from '#core/base/json.ts';

/** `gemini` is Google's API; `ollama` is a local model server that speaks OpenAI's chat completions. */
export const LLM_PROVIDERS = ['anthropic', 'openai', 'gemini', 'ollama'] as const;
export type LlmProvider = (typeof LLM_PROVIDERS)[number];

/** One turn of a conversation with a language model. The caller keeps the conversation; the port keeps no state. */
export interface Llm {
  /**
   * Sends the conversation and returns the model's whole turn. With `onText`, the answer is streamed and `onText` gets
   * each piece of text.
   *
   * Throws LLM_RATE_LIMITED if the provider limits this key for now, LLM_ERROR for any other failure at the provider or
   * on the network (a broken stream, an unreadable answer), and the signal's reason once it is aborted. No error
   * contains the key.
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
  /** An earlier turn of the model, from {@link LlmAnswer}. `raw` may hold what the provider wants back unchanged. */
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
  /** Arguments from the model; `undefined` if they were not JSON. */
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
  /** The turn as a message, for the next request. */
  readonly message: LlmMessage;
}

export interface LlmUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadTokens?: number;
  readonly cacheWriteTokens?: number;
}
