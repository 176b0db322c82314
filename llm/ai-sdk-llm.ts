import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4Message,
  LanguageModelV4Usage,
} from '@ai-sdk/provider';
import type { Config } from '#core/base/config.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { Llm, LlmAnswer, LlmMessage, LlmProvider, LlmRequest, LlmToolCall, LlmUsage } from '#core/ports/llm.ts';
import { createHttpFetch } from './http-fetch.ts';
import { toPlatformError } from './provider-error.ts';

type Urls = Pick<Config, 'anthropicUrl' | 'openaiUrl' | 'geminiUrl' | 'ollamaUrl'>;
type ModelFactory = (model: string, apiKey: string | undefined) => LanguageModelV4;
type AssistantContent = Extract<LanguageModelV4Message, { role: 'assistant' }>['content'];

/**
 * {@link Llm} over the providers of the Vercel AI SDK, without its `generateText`, which doubles the cost for retries,
 * tool loops and telemetry that we do not use. Requests are not retried here.
 */
export function createAiSdkLlm(urls: Urls): Llm {
  const load = loaders(urls);
  /** Providers are loaded at first use. */
  const loaded = new Map<LlmProvider, Promise<ModelFactory>>();
  const modelOf = async ({ provider, model, apiKey }: LlmRequest): Promise<LanguageModelV4> => {
    // Without a key the SDK would look for one in the environment.
    if (!apiKey && provider !== 'ollama') throw new Error(`a request to ${provider} needs a key`);
    let factory = loaded.get(provider);
    if (factory === undefined) {
      factory = load[provider]();
      loaded.set(provider, factory);
    }
    return (await factory)(model, apiKey);
  };

  return {
    async generate(request) {
      request.signal.throwIfAborted();
      const model = await modelOf(request);
      try {
        const turn = request.onText
          ? await streamed(model, optionsOf(request), request.onText)
          : await model.doGenerate(optionsOf(request));
        return answerOf(turn, request.provider);
      } catch (error) {
        request.signal.throwIfAborted();
        throw toPlatformError(error, request);
      }
    },
  };
}

function loaders({ anthropicUrl, openaiUrl, geminiUrl, ollamaUrl }: Urls): {
  [Provider in LlmProvider]: () => Promise<ModelFactory>;
} {
  const fetch = createHttpFetch();
  return {
    async anthropic() {
      const { createAnthropic } = await import('@ai-sdk/anthropic');
      return (model, apiKey) => createAnthropic({ baseURL: anthropicUrl, apiKey, fetch })(model);
    },
    async openai() {
      const { createOpenAI } = await import('@ai-sdk/openai');
      return (model, apiKey) => createOpenAI({ baseURL: openaiUrl, apiKey, fetch })(model);
    },
    async gemini() {
      const { createGoogle } = await import('@ai-sdk/google');
      return (model, apiKey) => createGoogle({ baseURL: geminiUrl, apiKey, fetch })(model);
    },
    async ollama() {
      if (ollamaUrl === undefined) throw new PlatformError('LLM_ERROR', 'There is no local model server here.');
      const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible');
      return (model, apiKey) =>
        createOpenAICompatible({ name: 'ollama', baseURL: ollamaUrl, apiKey, fetch, includeUsage: true })(model);
    },
  };
}

function optionsOf({ provider, system, messages, tools, ...request }: LlmRequest): LanguageModelV4CallOptions {
  return {
    prompt: [
      ...(system === undefined ? [] : [{ role: 'system' as const, content: system }]),
      ...messages.map((message) => promptMessage(message, provider)),
    ],
    maxOutputTokens: request.maxOutputTokens,
    // Anthropic has no JSON mode, and the SDK would warn.
    ...(request.json && provider !== 'anthropic' && { responseFormat: { type: 'json' } }),
    ...(tools !== undefined &&
      tools.length > 0 && {
        tools: tools.map(({ name, description, inputSchema }) => ({
          type: 'function' as const,
          name,
          description,
          inputSchema,
          // OpenAI's default refuses schemas with optional members, which authors use.
          ...(provider === 'openai' && { strict: false }),
        })),
      }),
    abortSignal: request.signal,
    // Otherwise OpenAI keeps conversations for 30 days.
    ...(provider === 'openai' && { providerOptions: { openai: { store: false } } }),
  };
}

/** The `raw` of an {@link LlmMessage}: the turn as its provider wants it back. */
interface RawTurn {
  readonly provider: LlmProvider;
  readonly content: AssistantContent;
}

function promptMessage(message: LlmMessage, provider: LlmProvider): LanguageModelV4Message {
  switch (message.role) {
    case 'user':
      return { role: 'user', content: [{ type: 'text', text: message.text }] };
    case 'assistant': {
      const raw = message.raw as RawTurn | undefined;
      return { role: 'assistant', content: raw?.provider === provider ? raw.content : plainContent(message) };
    }
    case 'tool':
      return {
        role: 'tool',
        content: message.results.map(({ id, name, text, isError }) => ({
          type: 'tool-result',
          toolCallId: id,
          toolName: name,
          output: { type: isError ? 'error-text' : 'text', value: text },
        })),
      };
  }
}

const plainContent = ({ text, toolCalls }: Extract<LlmMessage, { role: 'assistant' }>): AssistantContent => [
  ...(text === '' ? [] : [{ type: 'text' as const, text }]),
  ...toolCalls.map(({ id, name, input }) => ({
    type: 'tool-call' as const,
    toolCallId: id,
    toolName: name,
    input: input ?? {},
  })),
];

interface Turn {
  readonly content: readonly LanguageModelV4Content[];
  readonly finishReason: LanguageModelV4FinishReason;
  readonly usage: LanguageModelV4Usage;
}

/** Collects a streamed turn. Chunks with the same id are one part, with the last metadata. */
async function streamed(
  model: LanguageModelV4,
  options: LanguageModelV4CallOptions,
  onText: (text: string) => void,
): Promise<Turn> {
  const { stream } = await model.doStream(options);
  const content: LanguageModelV4Content[] = [];
  const open = new Map<string, { type: 'text' | 'reasoning'; text: string; providerMetadata?: Metadata }>();
  for await (const part of stream) {
    switch (part.type) {
      case 'text-start':
      case 'reasoning-start': {
        const { id, providerMetadata } = part;
        const begun = { type: part.type === 'text-start' ? 'text' : 'reasoning', text: '', providerMetadata } as const;
        open.set(id, begun);
        content.push(begun);
        break;
      }
      case 'text-delta':
      case 'reasoning-delta':
      case 'text-end':
      case 'reasoning-end': {
        const begun = open.get(part.id)!;
        if ('delta' in part) begun.text += part.delta;
        begun.providerMetadata = part.providerMetadata ?? begun.providerMetadata;
        if (part.type === 'text-delta' && part.delta !== '') onText(part.delta);
        break;
      }
      case 'tool-call':
        content.push(part);
        break;
      case 'error':
        throw part.error;
      case 'finish':
        return { content, finishReason: part.finishReason, usage: part.usage };
    }
  }
  throw new BrokenAnswerError();
}

type Metadata = Extract<LanguageModelV4Content, { type: 'text' }>['providerMetadata'];

/** The stream ended normally, but without the provider's finish reason. */
class BrokenAnswerError extends Error {
  readonly code = 'BROKEN_ANSWER';
}

function answerOf({ content, finishReason, usage }: Turn, provider: LlmProvider): LlmAnswer {
  if (isBroken(finishReason)) throw new BrokenAnswerError();
  const text = content.map((part) => (part.type === 'text' ? part.text : '')).join('');
  const toolCalls = content.flatMap((part): LlmToolCall[] =>
    part.type === 'tool-call' ? [{ id: part.toolCallId, name: part.toolName, input: parseInput(part.input) }] : [],
  );
  const raw: RawTurn = { provider, content: content.flatMap(backToProvider) };
  return {
    text,
    toolCalls,
    finishReason: FINISH_REASONS[finishReason.unified] ?? 'other',
    usage: usageOf(usage),
    message: { role: 'assistant', text, toolCalls, raw },
  };
}

const isBroken = ({ unified, raw }: LanguageModelV4FinishReason): boolean =>
  unified === 'interrupted' || unified === 'error' || (unified === 'other' && raw === undefined);

const FINISH_REASONS: { readonly [Unified in LanguageModelV4FinishReason['unified']]?: LlmAnswer['finishReason'] } = {
  stop: 'stop',
  length: 'length',
  'content-filter': 'content_filter',
  'tool-calls': 'tool_calls',
};

function parseInput(text: string): Json | undefined {
  // Tools without parameters get an empty text.
  if (text.trim() === '') return {};
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** Parts of an answer as parts of a prompt, with the provider's signatures. */
function backToProvider(part: LanguageModelV4Content): AssistantContent {
  const providerOptions = 'providerMetadata' in part ? part.providerMetadata : undefined;
  switch (part.type) {
    case 'text':
      // Providers refuse an empty text, unless it carries a signature.
      return part.text === '' && providerOptions === undefined
        ? []
        : [{ type: 'text', text: part.text, providerOptions }];
    case 'reasoning':
      return [{ type: 'reasoning', text: part.text, providerOptions }];
    case 'tool-call': {
      const { toolCallId, toolName, input } = part;
      return [{ type: 'tool-call', toolCallId, toolName, input: parseInput(input) ?? {}, providerOptions }];
    }
    default:
      // Other parts, such as files and sources, come only on request.
      return [];
  }
}

function usageOf({ inputTokens, outputTokens }: LanguageModelV4Usage): LlmUsage {
  const { total = 0, cacheRead, cacheWrite } = inputTokens;
  return {
    inputTokens: total,
    outputTokens: outputTokens.total ?? 0,
    ...(cacheRead && { cacheReadTokens: cacheRead }),
    ...(cacheWrite && { cacheWriteTokens: cacheWrite }),
  };
}
