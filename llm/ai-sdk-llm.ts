import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4FilePart,
  LanguageModelV4FinishReason,
  LanguageModelV4Message,
  LanguageModelV4Usage,
  SharedV4Warning,
} from '@ai-sdk/provider';
import type { Config } from '#core/base/config.ts';
import { fenced } from '#core/base/fence.ts';
import type { Json } from '#core/base/json.ts';
import type { Deps } from '#core/ports/deps.ts';
import {
  isLlmFailure,
  type Llm,
  type LlmAnswer,
  type LlmFile,
  type LlmMessage,
  type LlmProvider,
  type LlmRequest,
  type LlmTool,
  type LlmToolCall,
  type LlmToolResult,
} from '#core/ports/llm.ts';
import { type Breakpoints, breakpointsOf } from './breakpoints.ts';
import { BrokenMeter, toLlmUsage } from './broken-meter.ts';
import { type OnlyTool, onlyTool } from './only-tool.ts';
import { isPlatformRefused, messageIn, toPlatformError } from './provider-error.ts';
import { type ChosenForm, SchemaForms } from './schema-for.ts';
import { createWires, type WireConfig } from './wires.ts';

type LlmConfig = WireConfig & Pick<Config, 'ollamaSchemas'>;
type ModelFactory = (request: LlmRequest) => LanguageModelV4;
type AssistantContent = Extract<LanguageModelV4Message, { role: 'assistant' }>['content'];

/**
 * {@link Llm} over the providers of the Vercel AI SDK, without its `generateText`, which doubles the cost for retries,
 * tool loops and telemetry that we do not use. Requests are sent once: `SteadyLlm` retries them.
 *
 * @param log Has the reason when a transport refuses the platform itself, which callers must not see.
 */
export function createAiSdkLlm(config: LlmConfig, log?: Deps['log']): Llm {
  const load = loaders(config);
  const schemaForms = new SchemaForms(config);
  /** Providers are loaded at first use. */
  const loaded = new Map<LlmProvider, Promise<ModelFactory>>();
  const modelOf = async (request: LlmRequest): Promise<LanguageModelV4> => {
    const { provider, apiKey, transport } = request;
    // Without a key the SDK would look for one in the environment.
    if (!apiKey && provider !== 'ollama' && transport?.via !== 'bedrock')
      throw new Error(`a request to ${provider} needs a key`);
    let factory = loaded.get(provider);
    if (factory === undefined) {
      factory = load[provider]();
      loaded.set(provider, factory);
    }
    return (await factory)(request);
  };

  return {
    async generate(request) {
      request.signal.throwIfAborted();
      const meter = new BrokenMeter();
      const model = await modelOf({
        ...request,
        onSign(sign) {
          if (sign === 'received') meter.hasReceived = true;
          request.onSign?.(sign);
        },
      });
      const form = schemaForm(schemaForms, request);
      const options = optionsOf(request, form);
      try {
        const turn = request.onText ? await streamed(model, options, request, meter) : await model.doGenerate(options);
        return answerOf(turn, request.provider, form);
      } catch (error) {
        const usage = meter.usageOf(error, options);
        if (usage !== undefined) request.onBroken?.(usage);
        request.signal.throwIfAborted();
        if (isPlatformRefused(error, request)) {
          const { message, responseBody } = error as { message?: string; responseBody?: string };
          log?.error('Amazon Bedrock refuses the platform', { problem: messageIn(responseBody) || message });
        }
        const failure = toPlatformError(error, request, { isSchemaNew: form?.weaken !== undefined });
        if (isLlmFailure(failure) && failure.isSchemaRefusal) form?.weaken?.();
        throw failure;
      }
    },
  };
}

function loaders(config: LlmConfig): { [Provider in LlmProvider]: () => Promise<ModelFactory> } {
  const wireOf = createWires(config);
  return {
    async anthropic() {
      const { createAnthropic } = await import('@ai-sdk/anthropic');
      return (request) => createAnthropic(wireOf(request))(request.model);
    },
    async openai() {
      const { createOpenAI } = await import('@ai-sdk/openai');
      return (request) => createOpenAI(wireOf(request))(request.model);
    },
    async gemini() {
      const { createGoogle } = await import('@ai-sdk/google');
      return (request) => createGoogle(wireOf(request))(request.model);
    },
    async ollama() {
      const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible');
      const supportsStructuredOutputs = config.ollamaSchemas;
      return (request) => {
        const options = { name: 'ollama', ...wireOf(request), includeUsage: true, supportsStructuredOutputs };
        return createOpenAICompatible(options)(request.model);
      };
    },
  };
}

/** Comes after the last part of what has it. */
const BREAKPOINT = { providerOptions: { anthropic: { cacheControl: { type: 'ephemeral' } } } };

function optionsOf(given: LlmRequest, form: ChosenForm | undefined): LanguageModelV4CallOptions {
  const request = withSchema(given, form);
  const { provider, system, messages, tools } = request;
  const marks = breakpointsOf(request);
  const only = onlyTool(request);
  return {
    prompt: [
      ...(system === undefined ? [] : [{ role: 'system' as const, content: system, ...(marks.system && BREAKPOINT) }]),
      ...messages.flatMap((message) =>
        message.role === 'only'
          ? only.messages
          : promptMessages(message, provider, marks).map((sent) => ({
              ...sent,
              ...(marks.messages.has(message) && BREAKPOINT),
            })),
      ),
    ],
    ...(only.toolChoice && { toolChoice: only.toolChoice }),
    maxOutputTokens: request.maxOutputTokens,
    temperature: request.temperature,
    stopSequences: request.stop && [...request.stop],
    seed: request.seed,
    responseFormat: responseFormatOf(request, form),
    ...(tools !== undefined && tools.length > 0 && { tools: tools.map((tool) => toolOf(tool, provider, form)) }),
    abortSignal: request.signal,
    providerOptions: optionsFor(request, only, form),
  };
}

function responseFormatOf(
  { provider, json, outputSchema }: LlmRequest,
  form: ChosenForm | undefined,
): LanguageModelV4CallOptions['responseFormat'] {
  if (outputSchema !== undefined && form !== undefined && 'schema' in form.form) {
    return { type: 'json', name: 'output', schema: form.form.schema };
  }
  // Anthropic has no JSON mode, and the SDK would warn.
  return (json || outputSchema !== undefined) && provider !== 'anthropic' ? { type: 'json' } : undefined;
}

function toolOf({ name, description, inputSchema, isStrict }: LlmTool, provider: LlmProvider, form?: ChosenForm) {
  const strict = isStrict && form !== undefined && 'schema' in form.form ? form.form.schema : undefined;
  return {
    type: 'function' as const,
    name,
    description,
    inputSchema: strict ?? inputSchema,
    // OpenAI's default refuses schemas with optional members, which authors use.
    ...((strict !== undefined || provider === 'openai') && { strict: strict !== undefined }),
  };
}

/** Not the SDK's `reasoning`, which also asks for summaries, or makes models think that would not. */
function optionsFor(
  { provider, effort, thoughts, parallelToolCalls, cache }: LlmRequest,
  { allowedTools, toolChoice }: OnlyTool,
  form: ChosenForm | undefined,
): LanguageModelV4CallOptions['providerOptions'] {
  switch (provider) {
    case 'anthropic': {
      const isByTool = form?.form.kind === 'tool';
      // A model that has to call a tool may not be told to think.
      const isForced = isByTool || toolChoice !== undefined;
      return {
        anthropic: {
          // Not thinking is no effort there.
          ...(effort === 'none' ? { thinking: { type: 'disabled' } } : effort && { effort }),
          ...(thoughts && effort !== 'none' && !isForced && { thinking: { type: 'adaptive', display: 'summarized' } }),
          ...(parallelToolCalls === false && { disableParallelToolUse: true }),
          ...(isByTool && { structuredOutputMode: 'jsonTool' }),
        },
      };
    }
    case 'openai':
      return {
        openai: {
          // Otherwise OpenAI keeps conversations for 30 days, and the SDK asks for summaries, which some accounts may not.
          store: false,
          ...(effort && { reasoningEffort: effort, reasoningSummary: null }),
          ...(form?.form.kind === 'guide' && { strictJsonSchema: false }),
          ...(cache && { promptCacheKey: cache.key }),
          ...(allowedTools && { allowedTools }),
          ...(parallelToolCalls !== undefined && { parallelToolCalls }),
        },
      };
    case 'gemini':
      return {
        google: {
          ...((effort || thoughts) && {
            thinkingConfig: { ...(effort && { thinkingLevel: effort }), ...(thoughts && { includeThoughts: true }) },
          }),
        },
      };
    case 'ollama':
      return {
        ollama: {
          ...(effort && { reasoningEffort: effort }),
          ...(parallelToolCalls !== undefined && { parallel_tool_calls: parallelToolCalls }),
        },
      };
  }
}

/** The form of the answer's schema, or of the strict tool's parameters, that this conversation has. */
function schemaForm(forms: SchemaForms, request: LlmRequest): ChosenForm | undefined {
  const { outputSchema, messages, tools = [], provider } = request;
  const turns = messages.flatMap((message) =>
    message.role === 'assistant' ? [message.raw as RawTurn | undefined] : [],
  );
  const before = turns.findLast((turn) => turn?.provider === provider)?.schemaPlace;
  if (outputSchema !== undefined) return forms.choose(request, outputSchema, 'answer', before);
  const strict = tools.find(({ isStrict }) => isStrict);
  return strict && forms.choose(request, strict.inputSchema, 'tool', before);
}

/** The request with the schema in its first message, if nothing else tells the model. */
function withSchema(request: LlmRequest, form: ChosenForm | undefined): LlmRequest {
  if (form?.form.kind !== 'message') return request;
  const [first, ...others] = request.messages as [Extract<LlmMessage, { role: 'user' }>, ...LlmMessage[]];
  const schema = fenced('json', JSON.stringify(request.outputSchema));
  const text = `${first.text}\n\nAnswer with JSON only, which matches this JSON Schema:\n${schema}`;
  return { ...request, messages: [{ ...first, text }, ...others] };
}

/** The `raw` of an {@link LlmMessage}: the turn as its provider wants it back. */
interface RawTurn {
  readonly provider: LlmProvider;
  readonly content: AssistantContent;
  /** {@link ChosenForm.place} of its request. */
  readonly schemaPlace: number | undefined;
}

function promptMessages(
  message: Exclude<LlmMessage, { role: 'only' }>,
  provider: LlmProvider,
  marks: Breakpoints,
): LanguageModelV4Message[] {
  switch (message.role) {
    case 'user': {
      const { shared, text, files = [] } = message;
      const parts = files.map(filePart);
      if (shared === undefined) return [{ role: 'user', content: [...parts, { type: 'text', text }] }];
      // Not every local server reads a list of parts.
      if (provider === 'ollama') {
        return [{ role: 'user', content: [...parts, { type: 'text', text: `${shared}\n\n${text}` }] }];
      }
      const first = { type: 'text' as const, text: shared, ...(marks.shared && BREAKPOINT) };
      return [{ role: 'user', content: [first, ...parts, { type: 'text', text }] }];
    }
    case 'assistant': {
      const raw = message.raw as RawTurn | undefined;
      return [{ role: 'assistant', content: raw?.provider === provider ? raw.content : plainContent(message) }];
    }
    case 'tool':
      return toolMessages(message.results, provider);
  }
}

/**
 * Results of tools, with their files in them. Servers of chat completions take text in results only, for which the SDK
 * would write the bytes as JSON: there the files follow as a message of the user.
 */
function toolMessages(results: readonly LlmToolResult[], provider: LlmProvider): LanguageModelV4Message[] {
  const isText = provider === 'ollama';
  const message: LanguageModelV4Message = {
    role: 'tool',
    content: results.map(({ id, name, text, isError, files = [] }) => ({
      type: 'tool-result',
      toolCallId: id,
      toolName: name,
      output:
        isText || files.length === 0
          ? { type: isError ? 'error-text' : 'text', value: text }
          : { type: 'content', value: [{ type: 'text', text }, ...files.map(filePart)] },
    })),
  };
  const files = isText ? results.flatMap((result) => result.files ?? []) : [];
  if (files.length === 0) return [message];
  const text = `The files of these results, in their order: ${files.map(({ name }) => name).join(', ')}.`;
  return [message, { role: 'user', content: [...files.map(filePart), { type: 'text', text }] }];
}

const filePart = ({ name, mediaType, bytes }: LlmFile): LanguageModelV4FilePart => ({
  type: 'file',
  filename: name,
  mediaType,
  // Not a `Buffer`: in JSON, as which the size of a request is estimated, it would be a list of its bytes.
  data: { type: 'data', data: new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength) },
});

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
  readonly warnings: readonly SharedV4Warning[];
}

/** Collects a streamed turn. Chunks with the same id are one part, with the last metadata. */
async function streamed(
  model: LanguageModelV4,
  options: LanguageModelV4CallOptions,
  { onText, onThought }: Pick<LlmRequest, 'onText' | 'onThought'>,
  meter: BrokenMeter,
): Promise<Turn> {
  const { stream } = await model.doStream({ ...options, includeRawChunks: true });
  const content: LanguageModelV4Content[] = [];
  let warnings: readonly SharedV4Warning[] = [];
  const open = new Map<string, { type: 'text' | 'reasoning'; text: string; providerMetadata?: Metadata }>();
  for await (const part of stream) {
    if ('delta' in part && typeof part.delta === 'string') meter.characters += part.delta.length;
    switch (part.type) {
      case 'stream-start':
        warnings = part.warnings;
        break;
      case 'raw':
        meter.read(part.rawValue);
        break;
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
        if (part.type === 'text-delta' && part.delta !== '') onText?.(part.delta);
        if (part.type === 'reasoning-delta' && part.delta !== '') onThought?.(part.delta);
        break;
      }
      case 'tool-call':
        content.push(part);
        break;
      case 'error':
        throw part.error;
      case 'finish':
        if (!meter.hasBegun) throw new BrokenAnswerError('NO_ANSWER');
        return { content, finishReason: part.finishReason, usage: part.usage, warnings };
    }
  }
  throw new BrokenAnswerError(meter.hasBegun ? 'BROKEN_ANSWER' : 'NO_ANSWER');
}

type Metadata = Extract<LanguageModelV4Content, { type: 'text' }>['providerMetadata'];

/** The answer ended normally, but without the provider's finish reason, or as a stream without an event. */
class BrokenAnswerError extends Error {
  readonly code: 'BROKEN_ANSWER' | 'NO_ANSWER';
  readonly usage: LanguageModelV4Usage | undefined;

  constructor(code: BrokenAnswerError['code'], usage?: LanguageModelV4Usage) {
    super();
    this.code = code;
    this.usage = usage;
  }
}

function answerOf(
  { content, finishReason, usage, warnings }: Turn,
  provider: LlmProvider,
  form: ChosenForm | undefined,
): LlmAnswer {
  if (isBroken(finishReason)) throw new BrokenAnswerError('BROKEN_ANSWER', usage);
  const text = content.map((part) => (part.type === 'text' ? part.text : '')).join('');
  const toolCalls = content.flatMap((part): LlmToolCall[] =>
    part.type === 'tool-call' ? [{ id: part.toolCallId, name: part.toolName, input: parseInput(part.input) }] : [],
  );
  const raw: RawTurn = { provider, content: content.flatMap(backToProvider), schemaPlace: form?.place };
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

/** Anthropic's `model_context_window_exceeded` is no limit of the request, as the SDK has it. */
const reasonOf = ({ unified, raw }: LanguageModelV4FinishReason): LlmAnswer['finishReason'] =>
  raw === 'model_context_window_exceeded' ? 'window' : (FINISH_REASONS[unified] ?? 'other');

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
