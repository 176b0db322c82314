import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4FilePart,
  LanguageModelV4Message,
  SharedV4Warning,
} from '@ai-sdk/provider';
import {
  kindOf,
  type LlmFile,
  type LlmMessage,
  type LlmProvider,
  type LlmRequest,
  type LlmTool,
  type LlmToolResult,
  type ProviderKind,
} from '#core/ports/llm.ts';
import { type Breakpoints, breakpointsOf } from './breakpoints.ts';
import type { ProviderEndpoint } from './endpoints.ts';
import { onlyTool } from './only-tool.ts';
import type { BrokenMeter } from './partial-usage.ts';
import type { ApiSettings, ModelFactory } from './providers/api.ts';
import { apiOf } from './providers.ts';
import { type ChosenForm, withSchema } from './schema-for.ts';
import { assistantContent, BrokenAnswerError, type Turn } from './turn.ts';

/**
 * Gets model turns through the providers of the Vercel AI SDK, without its `generateText`, which doubles the cost for
 * retries, tool loops and telemetry that we do not use.
 */
export function createSdkTurns(config: ApiSettings) {
  /** Providers are loaded on first use. */
  const loaded = new Map<ProviderKind, Promise<ModelFactory>>();
  return async (
    request: LlmRequest,
    wire: ProviderEndpoint,
    form: ChosenForm | undefined,
    meter: BrokenMeter,
  ): Promise<Turn> => {
    const { provider } = request;
    const kind = kindOf(provider);
    let factory = loaded.get(kind);
    if (factory === undefined) {
      factory = apiOf(provider).load(config);
      loaded.set(kind, factory);
    }
    const model = (await factory)(request, wire);
    const options = optionsOf(request, form);
    return request.onText ? streamed(model, options, request, meter) : model.doGenerate(options);
  };
}

/** Follows the last part before the breakpoint. */
const BREAKPOINT = { providerOptions: { anthropic: { cacheControl: { type: 'ephemeral' } } } };

export function optionsOf(given: LlmRequest, form: ChosenForm | undefined): LanguageModelV4CallOptions {
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
    ...(tools !== undefined && tools.length > 0 && { tools: tools.map((tool) => toolOf(tool, provider)) }),
    abortSignal: request.signal,
    providerOptions: apiOf(provider).options(request, only, form?.form),
  };
}

function responseFormatOf(
  { provider, json, outputSchema }: LlmRequest,
  form: ChosenForm | undefined,
): LanguageModelV4CallOptions['responseFormat'] {
  if (outputSchema !== undefined && form !== undefined && 'schema' in form.form) {
    return { type: 'json', name: 'output', schema: form.form.schema };
  }
  const isJson = json || outputSchema !== undefined;
  return isJson && apiOf(provider).hasJsonMode ? { type: 'json' } : undefined;
}

const toolOf = ({ name, description, inputSchema, isStrict = false }: LlmTool, provider: LlmProvider) => ({
  type: 'function' as const,
  name,
  description,
  inputSchema,
  ...((isStrict || apiOf(provider).declaresLooseTools) && { strict: isStrict }),
});

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
      if (!apiOf(provider).takesParts) {
        return [{ role: 'user', content: [...parts, { type: 'text', text: `${shared}\n\n${text}` }] }];
      }
      const first = { type: 'text' as const, text: shared, ...(marks.shared && BREAKPOINT) };
      return [{ role: 'user', content: [first, ...parts, { type: 'text', text }] }];
    }
    case 'assistant':
      return [{ role: 'assistant', content: assistantContent(message, provider) }];
    case 'tool':
      return toolMessages(message.results, provider);
  }
}

/**
 * Returns the messages for tool results, including their files. Chat completion servers accept only text in results,
 * and the SDK would send the bytes as JSON: for these the files follow in a user message.
 */
function toolMessages(results: readonly LlmToolResult[], provider: LlmProvider): LanguageModelV4Message[] {
  const isText = !apiOf(provider).takesParts;
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
  // Not a `Buffer`: the size of a request is estimated from JSON, where a `Buffer` is a list of its bytes.
  data: { type: 'data', data: new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength) },
});

/** Collects a streamed turn. Chunks with the same id form one part, with the last metadata. */
async function streamed(
  model: LanguageModelV4,
  options: LanguageModelV4CallOptions,
  { onText, onThought, onTool }: Pick<LlmRequest, 'onText' | 'onThought' | 'onTool'>,
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
      case 'tool-input-start':
        onTool?.(part.toolName);
        break;
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
