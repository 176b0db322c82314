import type { LanguageModelV4CallOptions, LanguageModelV4Content, LanguageModelV4Usage } from '@ai-sdk/provider';
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

/** Returns the tokens of a turn that took two requests. */
export function sumOf(first: LanguageModelV4Usage, second: LanguageModelV4Usage): LanguageModelV4Usage {
  const sum = (one: number | undefined, other: number | undefined) =>
    one === undefined && other === undefined ? undefined : (one ?? 0) + (other ?? 0);
  const [input, more] = [first.inputTokens, second.inputTokens];
  return {
    inputTokens: {
      total: sum(input.total, more.total),
      noCache: sum(input.noCache, more.noCache),
      cacheRead: sum(input.cacheRead, more.cacheRead),
      cacheWrite: sum(input.cacheWrite, more.cacheWrite),
    },
    outputTokens: {
      total: sum(first.outputTokens.total, second.outputTokens.total),
      text: sum(first.outputTokens.text, second.outputTokens.text),
      reasoning: sum(first.outputTokens.reasoning, second.outputTokens.reasoning),
    },
  };
}

/** Estimates the tokens of an answer that came without a count, as from some gateways and local servers. */
export function estimatedUsage(content: readonly LanguageModelV4Content[], asked: LanguageModelV4CallOptions) {
  const characters = content.reduce((sum, part) => {
    if (part.type === 'tool-call') return sum + part.toolName.length + part.input.length;
    return sum + ('text' in part ? part.text.length : 0);
  }, 0);
  return { inputTokens: inputTokensOf(asked), outputTokens: Math.ceil(characters / ANSWER_CHARACTERS) };
}

function inputTokensOf({ prompt, tools }: LanguageModelV4CallOptions): number {
  let fileTokens = 0;
  const text = JSON.stringify([prompt, tools], (_, value) => {
    if (value?.type !== 'file') return value;
    fileTokens += FILE_TOKENS;
    return undefined;
  });
  return Math.ceil(Buffer.byteLength(text) / REQUEST_BYTES) + fileTokens;
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
    return {
      ...(this.#input ?? { inputTokens: inputTokensOf(asked()) }),
      outputTokens: Math.ceil((this.characters + responseBody.length) / ANSWER_CHARACTERS),
    };
  }

  /** Whether an answer of the model was in progress: a success status and an expected content type. */
  #isHalfAnswer({ statusCode = 200, responseHeaders }: Failure): boolean {
    const isJson = responseHeaders?.['content-type']?.includes('json') ?? true;
    return this.hasReceived && statusCode < 300 && isJson;
  }
}
