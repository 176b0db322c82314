import type {
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4ToolCall,
  LanguageModelV4Usage,
} from '@ai-sdk/provider';
import type { LlmRequest } from '#core/ports/llm.ts';
import type { ChosenForm } from '../schema-for.ts';
import { parseInput, type Turn } from '../turn.ts';
import { countOf, isObject, listOf, type Members, maybe, objectOf, textOf } from './members.ts';
import { inputOf, isConversation, toolsOf } from './openai-prompt.ts';
import { type DirectProvider, EventError } from './provider.ts';

/** Models known to be reasoning models. Only the SDK knows the settings of others. */
const THINKING_MODELS = /^gpt-[5-9](?!.*(chat|pro))/;
/** Effort levels that all of these models support. */
const EFFORTS: readonly LlmRequest['effort'][] = [undefined, 'low', 'medium', 'high'];
/** Schema features that OpenAI rejects, and that the SDK omits with a warning or rewrites. */
const UNKNOWN_TO_OPENAI = /"propertyNames"|"allOf"|\(\?/;

/** OpenAI's Responses API (https://developers.openai.com/api/docs/api-reference/responses). */
export const openai: DirectProvider = {
  takes(request, form) {
    const { model, effort } = request;
    if (!THINKING_MODELS.test(model) || !EFFORTS.includes(effort) || !isConversation(request)) return false;
    return !UNKNOWN_TO_OPENAI.test(JSON.stringify([formatOf(request, form), toolsOf(request)]));
  },

  url: ({ baseURL }) => `${baseURL}/responses`,

  headers: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),

  body(request, form) {
    const { model, maxOutputTokens, effort, cache, onText } = request;
    const format = formatOf(request, form);
    return {
      model,
      input: inputOf(request),
      max_output_tokens: maxOutputTokens,
      ...(format && { text: { format } }),
      store: false,
      // Items that OpenAI does not store must be sent back with the next turn.
      include: ['reasoning.encrypted_content'],
      ...(cache && { prompt_cache_key: cache.key }),
      ...(effort && { reasoning: { effort } }),
      ...toolsOf(request),
      ...(onText && { stream: true }),
    };
  },

  turnOf(answer, { tools }) {
    const { error, output, ...response } = objectOf(answer);
    if (error) throw new EventError({ message: textOf(objectOf(error).message), statusCode: 400 }, true);
    return turnOf(listOf(output), response, tools);
  },

  events(pieces, { tools }) {
    /** Output items by their index. Incomplete ones have the text so far. */
    const items = new Map<unknown, Members>();
    const textSoFar = new Map<unknown, string>();
    let hasBegun = false;
    const read = (given: unknown): Turn | undefined => {
      const event = objectOf(given);
      const isFirst = !hasBegun;
      hasBegun ||= !['response.created', 'response.in_progress'].includes(event.type as string);
      switch (event.type) {
        case 'response.output_item.added': {
          const item = objectOf(event.item);
          // A call counts only once its parameters are complete.
          if (item.type !== 'function_call') items.set(event.output_index, item);
          else if (!isWrapper(item, tools)) pieces.tool(textOf(item.name));
          return undefined;
        }
        case 'response.output_item.done': {
          const item = objectOf(event.item);
          items.set(event.output_index, item);
          if (isWrapper(item, tools)) for (const { toolName } of callsOf(item, tools)) pieces.tool(toolName);
          return undefined;
        }
        case 'response.function_call_arguments.delta':
          pieces.input(textOf(event.delta));
          return undefined;
        case 'response.output_text.delta':
        case 'response.refusal.delta': {
          const delta = textOf(event.delta);
          textSoFar.set(event.output_index, (textSoFar.get(event.output_index) ?? '') + delta);
          pieces.text(delta);
          return undefined;
        }
        case 'response.reasoning_summary_text.delta':
          pieces.thought(textOf(event.delta));
          return undefined;
        case 'response.completed':
        case 'response.incomplete': {
          const output = [...items].map(([place, item]) => withText(item, textSoFar.get(place)));
          return turnOf(output, objectOf(event.response), tools);
        }
        case 'response.failed': {
          const { error, ...response } = objectOf(event.response);
          if (error) throw failureOf('response.failed', objectOf(error), isFirst);
          return { ...turnOf([], response, tools), finishReason: { unified: 'error', raw: 'error' } };
        }
        case 'error': {
          const error = objectOf(event.error ?? event);
          throw failureOf(maybe(textOf, error.type), error, isFirst);
        }
        default:
          return undefined;
      }
    };
    return { read };
  },
};

function formatOf({ json, outputSchema }: LlmRequest, form: ChosenForm | undefined): object | undefined {
  if (outputSchema !== undefined && form !== undefined && 'schema' in form.form) {
    const { kind, schema } = form.form;
    return { type: 'json_schema', strict: kind === 'native', name: 'output', schema };
  }
  return json || outputSchema !== undefined ? { type: 'json_object' } : undefined;
}

/** Returns the message with the text of its deltas if its end did not arrive. */
function withText(item: Members, text: string | undefined): Members {
  const isEmpty = item.type === 'message' && listOf(item.content).length === 0;
  return isEmpty && text !== undefined ? { ...item, content: [{ type: 'output_text', text }] } : item;
}

type Tools = LlmRequest['tools'];

function turnOf(output: readonly Members[], { incomplete_details, usage }: Members, tools: Tools): Turn {
  const content = output.flatMap((item) => contentOf(item, tools));
  const raw = maybe(textOf, maybe(objectOf, incomplete_details)?.reason);
  return {
    content,
    finishReason: { unified: CUTS[raw ?? ''] ?? endOf(output, raw), raw },
    usage: usageOf(maybe(objectOf, usage)),
    warnings: [],
  };
}

function endOf(output: readonly Members[], raw: string | undefined): LanguageModelV4FinishReason['unified'] {
  if (output.some(({ type }) => type === 'function_call')) return 'tool-calls';
  if (raw !== undefined) return 'other';
  const isRefused = output.some(
    ({ type, content: parts }) => type === 'message' && listOf(parts).some((part) => part.type === 'refusal'),
  );
  return isRefused ? 'content-filter' : 'stop';
}

const CUTS: { readonly [reason: string]: LanguageModelV4FinishReason['unified'] } = {
  max_output_tokens: 'length',
  content_filter: 'content-filter',
};

function contentOf(item: Members, tools: Tools): LanguageModelV4Content[] {
  if (item.type === 'function_call') return callsOf(item, tools);
  const itemId = maybe(textOf, item.id) ?? '';
  if (item.type === 'reasoning') {
    const summaries = listOf(item.summary).map(({ text }) => textOf(text));
    const openai = { itemId, reasoningEncryptedContent: maybe(textOf, item.encrypted_content) ?? null };
    const texts = summaries.length > 0 ? summaries : [''];
    return texts.map((text) => ({ type: 'reasoning', text, providerMetadata: { openai } }));
  }
  if (item.type !== 'message') return [];
  const phase = maybe(textOf, item.phase);
  return listOf(item.content).map(({ type, text, refusal }) => ({
    type: 'text',
    text: textOf(type === 'refusal' ? refusal : text),
    providerMetadata: { openai: { itemId, ...(phase !== undefined && { phase }) } },
  }));
}

/** The models' own tool for several calls at once. They may call it even if the request does not offer it. */
const WRAPPER = 'parallel';
const WRAPPED = 'functions.';

const isWrapper = ({ type, name }: Members, tools: Tools = []): boolean =>
  type === 'function_call' && name === WRAPPER && !tools.some((tool) => tool.name === WRAPPER);

/** Returns the calls of an item: several if it is a wrapper. */
function callsOf(item: Members, tools: Tools): LanguageModelV4ToolCall[] {
  const wrapped = isWrapper(item, tools) ? wrappedCalls(item, tools) : undefined;
  if (wrapped !== undefined) return wrapped;
  const caller = maybe(objectOf, item.caller);
  const openai = {
    itemId: textOf(item.id),
    ...(item.async != null && { async: item.async === true }),
    ...(item.namespace != null && { namespace: textOf(item.namespace) }),
    ...(caller && { caller: callerOf(caller) }),
  };
  return [{ ...callOf(item.call_id, item.name, item.arguments), providerMetadata: { openai } }];
}

const callOf = (id: unknown, name: unknown, input: unknown): LanguageModelV4ToolCall => ({
  type: 'tool-call',
  toolCallId: textOf(id),
  toolName: textOf(name),
  input: textOf(input),
});

const callerOf = ({ type, caller_id }: Members) => ({
  type: textOf(type),
  ...(type === 'program' && { callerId: textOf(caller_id) }),
});

/** Returns undefined if it wraps anything else. */
function wrappedCalls(item: Members, tools: Tools = []): LanguageModelV4ToolCall[] | undefined {
  const uses = (parseInput(textOf(item.arguments)) as { readonly tool_uses?: unknown } | null | undefined)?.tool_uses;
  if (!Array.isArray(uses) || uses.length === 0) return undefined;
  const names = new Set(tools.map(({ name }) => `${WRAPPED}${name}`));
  const isCall = (use: Partial<Members> | null): boolean =>
    names.has(String(use?.recipient_name)) && isObject(use?.parameters);
  if (!uses.every(isCall)) return undefined;
  return uses.map(({ recipient_name: name, parameters }, index) =>
    callOf(`${item.call_id}_${index}`, name.slice(WRAPPED.length), JSON.stringify(parameters)),
  );
}

function usageOf(usage: Members | undefined): LanguageModelV4Usage {
  const total = maybe(countOf, usage?.input_tokens);
  const details = maybe(objectOf, usage?.input_tokens_details);
  const cacheRead = maybe(countOf, details?.cached_tokens);
  const cacheWrite = maybe(countOf, details?.cache_write_tokens);
  return {
    inputTokens: { total, noCache: undefined, cacheRead, cacheWrite },
    outputTokens: { total: maybe(countOf, usage?.output_tokens), text: undefined, reasoning: undefined },
  };
}

/** Stream errors have a description instead of a status. The first matching pattern gives the status. */
const STATUSES: readonly (readonly [words: RegExp, status: number])[] = [
  [/insufficient_quota|rate_limit/, 429],
  [/authentication/, 401],
  [/permission/, 403],
  [/not_found/, 404],
  [/invalid|bad_request|context_length/, 400],
  [/overload/, 503],
  [/timeout/, 504],
];

function failureOf(type: string | undefined, { message, code }: Members, isFirst: boolean): EventError {
  const given = Number(code);
  const words = `${code ?? ''} ${type ?? ''}`.toLowerCase();
  const statusCode = given >= 400 && given <= 599 ? given : (STATUSES.find(([form]) => form.test(words))?.[1] ?? 500);
  return new EventError({ message: textOf(message), type, code: String(code ?? ''), statusCode }, isFirst);
}
