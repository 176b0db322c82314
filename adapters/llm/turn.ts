import type {
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4Message,
  LanguageModelV4Usage,
  SharedV4Warning,
} from '@ai-sdk/provider';
import { type Json, parseJsonValue } from '#core/base/json.ts';
import type { LlmAnswer, LlmMessage, LlmProvider, LlmToolCall } from '#core/ports/llm.ts';
import { toLlmUsage } from './partial-usage.ts';

/** A model's turn in the AI SDK's format, whichever path it came by. */
export interface Turn {
  readonly content: readonly LanguageModelV4Content[];
  readonly finishReason: LanguageModelV4FinishReason;
  readonly usage: LanguageModelV4Usage;
  readonly warnings: readonly SharedV4Warning[];
}

type AssistantContent = Extract<LanguageModelV4Message, { role: 'assistant' }>['content'];

/** The `raw` of an {@link LlmMessage}: the turn in the format that its provider expects back. */
export interface RawTurn {
  readonly provider: LlmProvider;
  readonly content: AssistantContent;
  /** The {@link ChosenForm.place} of its request. */
  readonly schemaPlace: number | undefined;
}

/** Returns the parts of an earlier turn; in the provider's own format if the provider is the same. */
export function assistantContent(
  { text, toolCalls, raw }: Extract<LlmMessage, { role: 'assistant' }>,
  provider: LlmProvider,
): AssistantContent {
  const turn = raw as RawTurn | undefined;
  if (turn?.provider === provider) return turn.content.filter(isSent);
  return [
    ...(text.trim() === '' ? [] : [{ type: 'text' as const, text }]),
    ...toolCalls.map(({ id, name, input }) => ({
      type: 'tool-call' as const,
      toolCallId: id,
      toolName: name,
      input: parametersOf(input),
    })),
  ];
}

/** Providers reject parameters that are no object. */
const parametersOf = (input: Json | undefined): Json =>
  typeof input === 'object' && input !== null && !Array.isArray(input) ? input : {};

/** Providers reject a blank text unless it has a signature. */
const isSent = (part: AssistantContent[number]): boolean =>
  part.type !== 'text' || part.text.trim() !== '' || part.providerOptions !== undefined;

/** The answer ended normally but without a finish reason, or as a stream without events. */
export class BrokenAnswerError extends Error {
  readonly code: 'BROKEN_ANSWER' | 'NO_ANSWER';
  readonly usage: LanguageModelV4Usage | undefined;

  constructor(code: BrokenAnswerError['code'], usage?: LanguageModelV4Usage) {
    super();
    this.code = code;
    this.usage = usage;
  }
}

/**
 * Converts a turn to the port's answer. Throws {@link BrokenAnswerError} for an incomplete turn.
 *
 * @param inputOf Returns the parameters of a call with the author's names.
 */
export function answerOf(
  { content, finishReason, usage, warnings }: Turn,
  provider: LlmProvider,
  schemaPlace: number | undefined,
  inputOf = (_name: string, input: Json | undefined): Json | undefined => input,
): LlmAnswer {
  if (isBroken(finishReason)) throw new BrokenAnswerError('BROKEN_ANSWER', usage);
  const text = content.map((part) => (part.type === 'text' ? part.text : '')).join('');
  const toolCalls = content.flatMap((part): LlmToolCall[] =>
    part.type === 'tool-call'
      ? [{ id: part.toolCallId, name: part.toolName, input: inputOf(part.toolName, parseInput(part.input)) }]
      : [],
  );
  const raw: RawTurn = { provider, content: content.flatMap(backToProvider), schemaPlace };
  return {
    text,
    toolCalls,
    finishReason: reasonOf(finishReason),
    usage: toLlmUsage(usage),
    message: { role: 'assistant', text, toolCalls, raw },
    ...(warnings.length > 0 && { warnings: warnings.map(sentenceOf) }),
  };
}

function sentenceOf(warning: SharedV4Warning): string {
  if ('message' in warning) return warning.message;
  return warning.details ?? `${warning.feature} is not supported.`;
}

const isBroken = ({ unified, raw }: LanguageModelV4FinishReason): boolean =>
  unified === 'interrupted' || unified === 'error' || (unified === 'other' && raw === undefined);

/** The SDK treats Anthropic's `model_context_window_exceeded` as the request's output limit, which it is not. */
const reasonOf = ({ unified, raw }: LanguageModelV4FinishReason): LlmAnswer['finishReason'] =>
  raw === 'model_context_window_exceeded' ? 'window' : (FINISH_REASONS[unified] ?? 'other');

const FINISH_REASONS: { readonly [Unified in LanguageModelV4FinishReason['unified']]?: LlmAnswer['finishReason'] } = {
  stop: 'stop',
  length: 'length',
  'content-filter': 'content_filter',
  'tool-calls': 'tool_calls',
};

/** Returns `undefined` for text that is not JSON, or nested too deeply for code that reads it. */
export const parseInput = (text: string): Json | undefined =>
  // Tools without parameters are called with an empty text.
  text.trim() === '' ? {} : parseJsonValue(text);

/** Converts a part of an answer to a part of a prompt, with the provider's signatures. */
function backToProvider(part: LanguageModelV4Content): AssistantContent {
  const providerOptions = 'providerMetadata' in part ? part.providerMetadata : undefined;
  switch (part.type) {
    case 'text':
      return [{ type: 'text', text: part.text, providerOptions }];
    case 'reasoning':
      return [{ type: 'reasoning', text: part.text, providerOptions }];
    case 'tool-call': {
      const { toolCallId, toolName, input } = part;
      return [{ type: 'tool-call', toolCallId, toolName, input: parametersOf(parseInput(input)), providerOptions }];
    }
    default:
      // Other parts, such as files and sources, come only on request.
      return [];
  }
}
