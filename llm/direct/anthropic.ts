import type { LanguageModelV4Content, LanguageModelV4FinishReason, LanguageModelV4Usage } from '@ai-sdk/provider';
import type { Turn } from '../turn.ts';
import { countOf, listOf, type Members, maybe, objectOf, textOf } from './members.ts';
import { type DirectProvider, EventError, type Pieces } from './provider.ts';

/** Models that take less output, or no schema: the SDK knows what. */
const OLD_MODELS = /claude-(instant|v?[123]\b|(opus|sonnet)-4(?!-[5-9]))/;
const BREAKPOINT = { cache_control: { type: 'ephemeral' } };

/** Anthropic's Messages API (https://platform.claude.com/docs/en/api/messages). */
export const anthropic: DirectProvider = {
  takes({ model, effort }, form) {
    // Not thinking has a form of its own for each model.
    if (effort === 'none' || OLD_MODELS.test(model)) return false;
    return form?.form.kind !== 'native' || model.includes('claude-');
  },

  url: ({ baseURL }) => `${baseURL}/messages`,

  headers: (apiKey) => ({ 'anthropic-version': '2023-06-01', 'x-api-key': apiKey }),

  body({ model, maxOutputTokens, thoughts, effort, message, cache, onText }, form) {
    const { shared, text } = message;
    const schema = form?.form.kind === 'native' ? form.form.schema : undefined;
    const first = shared === undefined ? [] : [textBlock(shared, cache?.again === 'shared')];
    return {
      model,
      max_tokens: maxOutputTokens,
      ...(thoughts && { thinking: { type: 'adaptive', display: 'summarized' } }),
      ...((effort || schema) && {
        output_config: { ...(effort && { effort }), ...(schema && { format: { type: 'json_schema', schema } }) },
      }),
      messages: [{ role: 'user', content: [...first, textBlock(text, false)] }],
      ...(onText && { stream: true }),
    };
  },

  turnOf(answer) {
    const { content, stop_reason, usage } = objectOf(answer);
    return {
      content: listOf(content).flatMap((block): LanguageModelV4Content[] => {
        switch (block.type) {
          case 'text':
            return [{ type: 'text', text: textOf(block.text) }];
          case 'thinking':
            return [thought(textOf(block.thinking), { signature: textOf(block.signature) })];
          case 'redacted_thinking':
            return [thought('', { redactedData: textOf(block.data) })];
          default:
            return [];
        }
      }),
      finishReason: finishReasonOf(stop_reason),
      usage: usageOf(objectOf(usage)),
      warnings: [],
    };
  },

  events(pieces) {
    const stream = new AnthropicStream(pieces);
    return (event) => stream.read(objectOf(event));
  },
};

const textBlock = (text: string, isMarked: boolean) => ({ type: 'text', text, ...(isMarked && BREAKPOINT) });

const thought = (text: string, anthropic: Record<string, string>): LanguageModelV4Content => ({
  type: 'reasoning',
  text,
  providerMetadata: { anthropic },
});

class AnthropicStream {
  readonly #pieces: Pieces;
  /** By the index of their block. */
  readonly #content = new Map<
    unknown,
    { type: 'text' | 'reasoning'; text: string; metadata?: Record<string, string> }
  >();
  #usage: Members = {};
  #stopReason: unknown;
  #hasBegun = false;

  constructor(pieces: Pieces) {
    this.#pieces = pieces;
  }

  read(event: Members): Turn | undefined {
    switch (event.type) {
      case 'message_start': {
        const { usage, stop_reason } = objectOf(event.message);
        this.#usage = { ...objectOf(usage), output_tokens: 0 };
        this.#stopReason = stop_reason;
        this.#hasBegun = true;
        return undefined;
      }
      case 'content_block_start':
        this.#begin(event.index, objectOf(event.content_block));
        return undefined;
      case 'content_block_delta':
        this.#add(event.index, objectOf(event.delta));
        return undefined;
      case 'message_delta': {
        const counted = Object.entries(objectOf(event.usage)).filter(([, count]) => count !== null);
        this.#usage = { ...this.#usage, ...Object.fromEntries(counted) };
        this.#stopReason = objectOf(event.delta).stop_reason;
        return undefined;
      }
      case 'message_stop':
        return {
          content: [...this.#content.values()].map(({ type, text, metadata }) => ({
            type,
            text,
            ...(metadata && { providerMetadata: { anthropic: metadata } }),
          })),
          finishReason: finishReasonOf(this.#stopReason),
          usage: usageOf(this.#usage),
          warnings: [],
        };
      case 'error': {
        const { message, type } = objectOf(event.error);
        const statusCode = STATUS_OF_ERRORS[textOf(type)];
        throw new EventError({ message: textOf(message), type: textOf(type), statusCode }, !this.#hasBegun);
      }
      default:
        // Anthropic adds events, and pings while its model thinks.
        return undefined;
    }
  }

  #begin(index: unknown, block: Members): void {
    if (block.type === 'text') this.#content.set(index, { type: 'text', text: '' });
    if (block.type === 'thinking') this.#content.set(index, { type: 'reasoning', text: '' });
    if (block.type === 'redacted_thinking') {
      const metadata = { redactedData: textOf(block.data) };
      this.#content.set(index, { type: 'reasoning', text: '', metadata });
    }
  }

  #add(index: unknown, delta: Members): void {
    const part = this.#content.get(index);
    if (part === undefined) return;
    switch (delta.type) {
      case 'text_delta':
        part.text += textOf(delta.text);
        this.#pieces.text(textOf(delta.text));
        break;
      case 'thinking_delta':
        part.text += textOf(delta.thinking);
        this.#pieces.thought(textOf(delta.thinking));
        break;
      case 'signature_delta':
        part.metadata = { signature: textOf(delta.signature) };
        break;
      default:
    }
  }
}

const FINISH_REASONS: { readonly [reason: string]: LanguageModelV4FinishReason['unified'] } = {
  pause_turn: 'stop',
  end_turn: 'stop',
  stop_sequence: 'stop',
  refusal: 'content-filter',
  tool_use: 'tool-calls',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
};

function finishReasonOf(reason: unknown): LanguageModelV4FinishReason {
  const raw = maybe(textOf, reason);
  return { unified: FINISH_REASONS[raw ?? ''] ?? 'other', raw };
}

function usageOf(usage: Members): LanguageModelV4Usage {
  const input = countOf(usage.input_tokens);
  const cacheRead = maybe(countOf, usage.cache_read_input_tokens) ?? 0;
  const cacheWrite = maybe(countOf, usage.cache_creation_input_tokens) ?? 0;
  const output = countOf(usage.output_tokens);
  return {
    inputTokens: { total: input + cacheRead + cacheWrite, noCache: input, cacheRead, cacheWrite },
    outputTokens: { total: output, text: undefined, reasoning: undefined },
  };
}

/** https://platform.claude.com/docs/en/api/errors */
const STATUS_OF_ERRORS: { readonly [type: string]: number } = {
  api_error: 500,
  overloaded_error: 529,
  rate_limit_error: 429,
  request_too_large: 413,
  authentication_error: 401,
  permission_error: 403,
  not_found_error: 404,
  billing_error: 400,
  invalid_request_error: 400,
};
