import type { LanguageModelV4Content, LanguageModelV4FinishReason, LanguageModelV4Usage } from '@ai-sdk/provider';
import type { LlmMessage, LlmRequest } from '#core/ports/llm.ts';
import type { ChosenForm } from '../schema-for.ts';
import type { Turn } from '../turn.ts';
import { countOf, listOf, type Members, maybe, objectOf, textOf } from './members.ts';
import { type DirectProvider, EventError, isQuestion } from './provider.ts';

/** The models that certainly think: of others, the SDK knows what they take. */
const THINKING_MODELS = /^gpt-[5-9](?!.*(chat|pro))/;
/** Which all of them take. */
const EFFORTS: readonly LlmRequest['effort'][] = [undefined, 'low', 'medium', 'high'];
/** What OpenAI does not take in schemas, and the SDK leaves out with a warning. */
const UNKNOWN_TO_OPENAI = /"propertyNames"|\(\?/;

/** OpenAI's Responses API (https://developers.openai.com/api/docs/api-reference/responses). */
export const openai: DirectProvider = {
  takes(request, form) {
    const { model, effort } = request;
    if (!isQuestion(request) || !THINKING_MODELS.test(model) || !EFFORTS.includes(effort)) return false;
    return form === undefined || !('schema' in form.form) || !UNKNOWN_TO_OPENAI.test(JSON.stringify(form.form.schema));
  },

  url: ({ baseURL }) => `${baseURL}/responses`,

  headers: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),

  body(request, form) {
    const { model, maxOutputTokens, effort, messages, cache, onText } = request;
    const message = messages[0] as Extract<LlmMessage, { role: 'user' }>;
    const texts = message.shared === undefined ? [message.text] : [message.shared, message.text];
    const format = formatOf(request, form);
    return {
      model,
      input: [{ role: 'user', content: texts.map((text) => ({ type: 'input_text', text })) }],
      max_output_tokens: maxOutputTokens,
      ...(format && { text: { format } }),
      store: false,
      // What is not kept there has to come back for a next turn.
      include: ['reasoning.encrypted_content'],
      ...(cache && { prompt_cache_key: cache.key }),
      ...(effort && { reasoning: { effort } }),
      ...(onText && { stream: true }),
    };
  },

  turnOf(answer) {
    const { error, output, ...response } = objectOf(answer);
    if (error) throw new EventError({ message: textOf(objectOf(error).message), statusCode: 400 }, true);
    return turnOf(listOf(output), response);
  },

  events(pieces) {
    /** By their place. Those that are not done have the text so far. */
    const items = new Map<unknown, Members>();
    const textSoFar = new Map<unknown, string>();
    let hasBegun = false;
    return (given) => {
      const event = objectOf(given);
      const isFirst = !hasBegun;
      hasBegun ||= !['response.created', 'response.in_progress'].includes(event.type as string);
      switch (event.type) {
        case 'response.output_item.added':
        case 'response.output_item.done':
          items.set(event.output_index, objectOf(event.item));
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
          return turnOf(output, objectOf(event.response));
        }
        case 'response.failed': {
          const { error, ...response } = objectOf(event.response);
          if (error) throw failureOf('response.failed', objectOf(error), isFirst);
          return { ...turnOf([], response), finishReason: { unified: 'error', raw: 'error' } };
        }
        case 'error': {
          const error = objectOf(event.error ?? event);
          throw failureOf(maybe(textOf, error.type), error, isFirst);
        }
        default:
          return undefined;
      }
    };
  },
};

function formatOf({ json, outputSchema }: LlmRequest, form: ChosenForm | undefined): object | undefined {
  if (form !== undefined && 'schema' in form.form) {
    const { kind, schema } = form.form;
    return { type: 'json_schema', strict: kind === 'native', name: 'output', schema };
  }
  return json || outputSchema !== undefined ? { type: 'json_object' } : undefined;
}

/** A message whose end did not come has the text of its pieces. */
function withText(item: Members, text: string | undefined): Members {
  const isEmpty = item.type === 'message' && listOf(item.content).length === 0;
  return isEmpty && text !== undefined ? { ...item, content: [{ type: 'output_text', text }] } : item;
}

function turnOf(output: readonly Members[], { incomplete_details, usage }: Members): Turn {
  const content = output.flatMap(contentOf);
  const isRefused = output.some(
    ({ type, content: parts }) => type === 'message' && listOf(parts).some((part) => part.type === 'refusal'),
  );
  const raw = maybe(textOf, maybe(objectOf, incomplete_details)?.reason);
  const unified = raw === undefined ? (isRefused ? 'content-filter' : 'stop') : (CUTS[raw] ?? 'other');
  return { content, finishReason: { unified, raw }, usage: usageOf(maybe(objectOf, usage)), warnings: [] };
}

const CUTS: { readonly [reason: string]: LanguageModelV4FinishReason['unified'] } = {
  max_output_tokens: 'length',
  content_filter: 'content-filter',
};

function contentOf(item: Members): LanguageModelV4Content[] {
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

/** Errors of streams name what they are instead of a status. The first that fits. */
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
