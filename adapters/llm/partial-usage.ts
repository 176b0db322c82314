import type { LanguageModelV4CallOptions, LanguageModelV4Usage } from '@ai-sdk/provider';
import type { LlmUsage } from '#core/ports/llm.ts';

/** Approximate bytes per token (`docs/interface/calls.md#models-that-fail`). */
const REQUEST_BYTES = 3.5;
const ANSWER_CHARACTERS = 4;
/** Approximate tokens of a large image. */
const FILE_TOKENS = 1_600;

/** Members of the errors of partial answers. */
interface Failure {
  readonly statusCode?: number;
  readonly responseHeaders?: Readonly<Record<string, string>>;
  readonly responseBody?: string;
  /** Token count that the provider had reported. */
  readonly usage?: LanguageModelV4Usage;
}

/** Returns the provider's own count. Cache members are absent if they are zero. */
export function toLlmUsage({ inputTokens, outputTokens }: LanguageModelV4Usage): LlmUsage {
  const { total = 0, cacheRead, cacheWrite } = inputTokens;
  return {
    inputTokens: total,
    outputTokens: outputTokens.total ?? 0,
    ...(cacheRead && { cacheReadTokens: cacheRead }),
    ...(cacheWrite && { cacheWriteTokens: cacheWrite }),
  };
}

/** Counts the tokens of an answer that may break off: providers charge for partial answers. */
export class BrokenMeter {
  /** Whether the provider sent any response. */
  hasReceived = false;
  /** Number of characters of text, thinking and tool calls. */
  characters = 0;
  /** Whether a stream had an event other than an error. */
  hasBegun = false;
  /** Input count that the provider reports at the beginning. */
  #input: Omit<LlmUsage, 'outputTokens'> | undefined;

  /** Reads an event of the provider. Only Anthropic's first one counts the input. */
  read(event: unknown): void {
    const { error, type, message } = (event ?? {}) as {
      readonly error?: unknown;
      readonly type?: string;
      readonly message?: { readonly usage?: Readonly<Record<string, number | null>> };
    };
    if (error != null || type === 'response.failed') return;
    this.hasBegun = true;
    if (type !== 'message_start' || message?.usage === undefined) return;
    const { input_tokens, cache_creation_input_tokens, cache_read_input_tokens } = message.usage;
    const [read, write] = [cache_read_input_tokens ?? 0, cache_creation_input_tokens ?? 0];
    this.#input = {
      inputTokens: (input_tokens ?? 0) + read + write,
      ...(read > 0 && { cacheReadTokens: read }),
      ...(write > 0 && { cacheWriteTokens: write }),
    };
  }

  /** Returns the tokens of the answer to `asked` that failed with `error`, or `undefined` if no answer had started. */
  usageOf(error: unknown, asked: () => LanguageModelV4CallOptions): LlmUsage | undefined {
    const { usage, responseBody = '' } = error as Failure;
    if (usage?.inputTokens.total !== undefined) return toLlmUsage(usage);
    if (!this.hasBegun && !this.#isHalfAnswer(error as Failure)) return undefined;
    const { prompt, tools } = asked();
    let fileTokens = 0;
    const text = JSON.stringify([prompt, tools], (_, value) => {
      if (value?.type !== 'file') return value;
      fileTokens += FILE_TOKENS;
      return undefined;
    });
    return {
      ...(this.#input ?? { inputTokens: Math.ceil(Buffer.byteLength(text) / REQUEST_BYTES) + fileTokens }),
      outputTokens: Math.ceil((this.characters + responseBody.length) / ANSWER_CHARACTERS),
    };
  }

  /** Whether an answer of the model was in progress: a success status and an expected content type. */
  #isHalfAnswer({ statusCode = 200, responseHeaders }: Failure): boolean {
    const isJson = responseHeaders?.['content-type']?.includes('json') ?? true;
    return this.hasReceived && statusCode < 300 && isJson;
  }
}
