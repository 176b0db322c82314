import type { LanguageModelV4Content, LanguageModelV4FinishReason, LanguageModelV4Usage } from '@ai-sdk/provider';
import type { Turn } from '../turn.ts';
import { isConversation, promptOf, toolHeaders } from './anthropic-prompt.ts';
import { countOf, listOf, type Members, maybe, objectOf, textOf } from './members.ts';
import { type DirectProvider, EventError, type Pieces, type StreamReader } from './provider.ts';

/** Models with lower output limits or without schemas, which only the SDK knows. */
const OLD_MODELS = /claude-(instant|v?[123]\b|(opus|sonnet)-4(?!-[5-9]))/;

/** Anthropic's Messages API (https://platform.claude.com/docs/en/api/messages). */
export const anthropic: DirectProvider = {
  takes(request, form) {
    const { model, effort, tools = [] } = request;
    // The setting that disables thinking differs between models.
    if (effort === 'none' || OLD_MODELS.test(model) || !isConversation(request)) return false;
    return (form?.form.kind !== 'native' && tools.length === 0) || model.includes('claude-');
  },

  url: ({ baseURL }) => `${baseURL}/messages`,

  headers: (apiKey, request) => ({
    'anthropic-version': '2023-06-01',
    'x-api-key': apiKey,
    ...toolHeaders(request),
  }),

  body(request, form) {
    const { model, maxOutputTokens, thoughts, effort, outputSchema, onText } = request;
    const schema = outputSchema !== undefined && form?.form.kind === 'native' ? form.form.schema : undefined;
    return {
      model,
      max_tokens: maxOutputTokens,
      ...(thoughts && { thinking: { type: 'adaptive', display: 'summarized' } }),
      ...((effort || schema) && {
        output_config: { ...(effort && { effort }), ...(schema && { format: { type: 'json_schema', schema } }) },
      }),
      ...promptOf(request),
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
          case 'tool_use':
            return [toolCall(block, JSON.stringify(objectOf(block.input)))];
          default:
            return [];
        }
      }),
      finishReason: finishReasonOf(stop_reason),
      usage: usageOf(maybe(objectOf, usage)),
      warnings: [],
    };
  },

  events(pieces) {
    return new AnthropicStream(pieces);
  },
};

/** Returns a tool call with its caller, which must be sent back with it. */
function toolCall(block: Members, input: string): LanguageModelV4Content {
  const caller = maybe(objectOf, block.caller);
  return {
    type: 'tool-call',
    toolCallId: textOf(block.id),
    toolName: textOf(block.name),
    input,
    ...(caller && {
      providerMetadata: {
        anthropic: { caller: { type: textOf(caller.type), ...maybe(toolIdOf, caller.tool_id) } },
      },
    }),
  };
}

const toolIdOf = (id: unknown): { readonly toolId: string } => ({ toolId: textOf(id) });

const thought = (text: string, anthropic: Record<string, string>): LanguageModelV4Content => ({
  type: 'reasoning',
  text,
  providerMetadata: { anthropic },
});

/** A call whose parameters arrive in pieces. */
interface ToolUse {
  readonly type: 'tool_use';
  readonly block: Members;
  input: string;
  /** Absent until the call is complete. */
  call?: LanguageModelV4Content;
}

/** Matches a text delta in Anthropic's format, without characters that JSON escapes. */
const PLAIN_TEXT =
  /^\{"type":"content_block_delta","index":(\d+),"delta":\{"type":"text_delta","text":"([^"\\\p{Cc}]*)"\} *\}$/u;

class AnthropicStream implements StreamReader {
  readonly #pieces: Pieces;
  /** Content blocks by their index. */
  readonly #content = new Map<
    unknown,
    { type: 'text' | 'reasoning'; text: string; metadata?: Record<string, string> } | ToolUse
  >();
  #usage: Members = {};
  #stopReason: unknown;
  #hasBegun = false;

  constructor(pieces: Pieces) {
    this.#pieces = pieces;
  }

  skim(data: string): boolean {
    const [, index, text = ''] = PLAIN_TEXT.exec(data) ?? [];
    const part = this.#content.get(Number(index));
    if (part?.type !== 'text') return false;
    part.text += text;
    this.#pieces.text(text);
    return true;
  }

  read(given: unknown): Turn | undefined {
    const event = objectOf(given);
    switch (event.type) {
      case 'message_start': {
        const { usage, stop_reason } = objectOf(event.message);
        this.#usage = { ...maybe(objectOf, usage), output_tokens: 0 };
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
      case 'content_block_stop': {
        const part = this.#content.get(event.index);
        if (part?.type === 'tool_use') part.call = toolCall(part.block, part.input === '' ? '{}' : part.input);
        return undefined;
      }
      case 'message_delta': {
        const counted = Object.entries(maybe(objectOf, event.usage) ?? {}).filter(([, count]) => count !== null);
        this.#usage = { ...this.#usage, ...Object.fromEntries(counted) };
        this.#stopReason = objectOf(event.delta).stop_reason;
        return undefined;
      }
      case 'message_stop':
        return {
          content: [...this.#content.values()].flatMap((part): LanguageModelV4Content[] => {
            if (part.type === 'tool_use') return part.call ? [part.call] : [];
            const { type, text, metadata } = part;
            return [{ type, text, ...(metadata && { providerMetadata: { anthropic: metadata } }) }];
          }),
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
        // Anthropic may add new events, and sends pings while its model thinks.
        return undefined;
    }
  }

  #begin(index: unknown, block: Members): void {
    if (block.type === 'text') this.#content.set(index, { type: 'text', text: '' });
    if (block.type === 'thinking') this.#content.set(index, { type: 'reasoning', text: '' });
    if (block.type === 'tool_use') {
      // The block has the complete parameters if the model's own code calls the tool.
      const input = Object.keys(maybe(objectOf, block.input) ?? {}).length > 0 ? JSON.stringify(block.input) : '';
      this.#content.set(index, { type: 'tool_use', block, input });
      this.#pieces.tool(textOf(block.name));
    }
    if (block.type === 'redacted_thinking') {
      const metadata = { redactedData: textOf(block.data) };
      this.#content.set(index, { type: 'reasoning', text: '', metadata });
    }
  }

  #add(index: unknown, delta: Members): void {
    const part = this.#content.get(index);
    if (part === undefined) return;
    if (part.type === 'tool_use') {
      if (delta.type !== 'input_json_delta') return;
      part.input += textOf(delta.partial_json);
      this.#pieces.input(textOf(delta.partial_json));
      return;
    }
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

/** Some gateways do not count. */
function usageOf(usage: Members = {}): LanguageModelV4Usage {
  const input = maybe(countOf, usage.input_tokens) ?? 0;
  const cacheRead = maybe(countOf, usage.cache_read_input_tokens) ?? 0;
  const cacheWrite = maybe(countOf, usage.cache_creation_input_tokens) ?? 0;
  const output = maybe(countOf, usage.output_tokens) ?? 0;
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
