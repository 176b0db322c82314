import models from '#core/models/models.json' with { type: 'json' };
import type { ModelFacts } from '#core/ports/model-table.ts';
import { FileLedger, type SeenFile } from './files.ts';
import { marksOf } from './prompt-cache.ts';
import { anthropicSchemaProblem, anthropicToolProblem, NAME, namePattern } from './schema-rules.ts';
import { systemProblem, toolChoiceOf } from './tool-choice.ts';
import {
  type Answer,
  isSigned,
  joined,
  pieces,
  type Read,
  type Signed,
  signatureOf,
  sse,
  ToolLedger,
  type Wire,
} from './turns.ts';

/** Anthropic's Messages API: `POST /messages`. */
export const anthropic: Wire = {
  keyOf: (headers) => (typeof headers['x-api-key'] === 'string' ? headers['x-api-key'] : undefined),

  read(body, _url, headers): Read {
    const messages: Message[] = body.messages ?? [];
    const model = String(body.model);
    const declared: string[] = (body.tools ?? []).map(({ name }: { name: string }) => name);
    const choice = toolChoiceOf(model, declared, body.tool_choice);
    const ledger = new ToolLedger();
    const files = new FileLedger();
    const texts: string[] = [textOf(body.system)];
    const parts: unknown[] = [body.tools ?? [], blocksOf(body.system)];
    const signed: Signed[] = [];
    let problem =
      choice.problem ?? systemProblem(messages, { model, declared, betas: String(headers['anthropic-beta']) });
    let said = 0;
    for (const [index, message] of messages.entries()) {
      const blocks = blocksOf(message.content);
      if (message.role !== 'system') texts.push(textOf(blocks));
      if (message.role !== 'system' && message.role !== (said++ % 2 === 0 ? 'user' : 'assistant'))
        problem ??= 'messages: roles must alternate.';
      // Tool results come first within a user turn.
      if (message.role === 'user')
        for (const block of blocks) if (block.type === 'tool_result') ledger.result(block.tool_use_id!);
      ledger.settle();
      for (const block of blocks) {
        if (block.type === 'tool_use') ledger.call(block.id!);
        if (block.type === 'thinking') signed.push({ part: parts.length, signature: block.signature ?? '' });
        parts.push({ role: message.role, ...block });
        if (block.type === 'thinking' && !isSigned(block.thinking!, block.signature))
          problem ??= `messages.${index}: Invalid \`signature\` in \`thinking\` block`;
        if (block.type === 'text' && block.text!.trim() === '')
          problem ??= `messages.${index}: text content blocks must contain non-whitespace text`;
        if (block.type === 'tool_use' && !NAME.test(block.name!))
          problem ??= `messages.${index}.content.tool_use.name: ${namePattern(NAME)}`;
        if (block.type === 'tool_use' && (typeof block.input !== 'object' || Array.isArray(block.input)))
          problem ??= `messages.${index}.content.tool_use.input: Input should be a valid dictionary`;
        if (block.type === 'tool_use' && !/^[\w-]+$/.test(block.id!))
          problem ??= `messages.${index}.content.tool_use.id: ${namePattern(/^[\w-]+$/)}`;
        if (block.type.endsWith('thinking') && block.cache_control !== undefined)
          problem ??= `messages.${index}: cache_control cannot be set on thinking blocks`;
      }
      for (const [at, block, isResult] of filesIn(blocks))
        addFile(files, block, `messages.${index}.content.${at}`, isResult);
    }
    ledger.settle();
    if (blocksOf(body.system).some(({ text = '' }) => text.trim() === ''))
      problem ??= 'system: text content blocks must contain non-whitespace text';
    if (headers['anthropic-version'] === undefined) problem ??= 'anthropic-version: header is required';
    if (typeof body.max_tokens !== 'number') problem ??= 'max_tokens: Field required';
    if (messages.length === 0) problem ??= 'messages: at least one message is required';
    // A mark on the request itself applies to its last block.
    if (body.cache_control) parts.push({ cache_control: body.cache_control, ...(parts.pop() as Block) });
    const marks = marksOf(parts).length;
    if (marks > MAX_MARKS)
      problem ??= `A maximum of ${MAX_MARKS} blocks with cache_control may be provided. Found ${marks}.`;
    problem ??= files.problem ?? tooManyOf(files.files);
    const format = body.output_config?.format;
    if (format !== undefined) problem ??= anthropicSchemaProblem('output_config.format.schema', format.schema);
    for (const [index, tool] of (body.tools ?? []).entries()) {
      problem ??= anthropicToolProblem(`tools.${index}.custom`, tool);
      if (tool.strict) problem ??= anthropicSchemaProblem(`tools.${index}.custom`, tool.input_schema);
    }
    return {
      ...(body.tools?.at(-1)?.name === 'json' && { answersBy: 'json' }),
      model,
      files: files.files,
      stream: body.stream === true,
      text: joined(texts),
      lastText: texts.at(-1)!,
      maxTokens: body.max_tokens,
      turns: messages.filter(({ role }) => role === 'assistant').length,
      forced: choice.forced,
      parts,
      signed,
      ...(hidesThoughts(body) && { hidden: 'empty' }),
      // A change of these settings invalidates only the cached messages.
      cache: { kind: 'marks', mode: JSON.stringify([body.tool_choice, body.thinking]) },
      problem: problem ?? ledger.problem,
    };
  },

  body: (answer) => ({
    ...head(answer),
    content: contentOf(answer),
    stop_reason: STOP_REASONS[answer.finish],
    ...(!answer.noUsage && { usage: { ...inputUsage(answer), output_tokens: answer.usage.output } }),
  }),

  frames(answer) {
    const frames = [
      sse('message_start', {
        type: 'message_start',
        message: {
          ...head(answer),
          content: [],
          stop_reason: null,
          ...(!answer.noUsage && { usage: { ...inputUsage(answer), output_tokens: 1 } }),
        },
      }),
      sse('ping', { type: 'ping' }),
    ];
    const block = (start: object, deltas: object[]): void => {
      const index = blocks++;
      frames.push(
        sse('content_block_start', { type: 'content_block_start', index, content_block: start }),
        ...deltas.map((delta) => sse('content_block_delta', { type: 'content_block_delta', index, delta })),
        sse('content_block_stop', { type: 'content_block_stop', index }),
      );
    };
    let blocks = 0;
    if (answer.thinking !== undefined)
      block({ type: 'thinking', thinking: '', signature: '' }, [
        ...pieces(answer.thinking).map((thinking) => ({ type: 'thinking_delta', thinking })),
        { type: 'signature_delta', signature: signatureOf(answer.thinking, answer.prefix) },
      ]);
    if (answer.text !== '')
      block(
        { type: 'text', text: '' },
        pieces(answer.text).map((text) => ({ type: 'text_delta', text })),
      );
    for (const { id, name, json } of answer.toolCalls)
      block({ type: 'tool_use', id, name, input: {} }, [
        { type: 'input_json_delta', partial_json: '' },
        ...pieces(json).map((partial_json) => ({ type: 'input_json_delta', partial_json })),
      ]);
    frames.push(
      sse('message_delta', {
        type: 'message_delta',
        delta: { stop_reason: STOP_REASONS[answer.finish], stop_sequence: null },
        ...(!answer.noUsage && { usage: { output_tokens: answer.usage.output } }),
      }),
      sse('message_stop', { type: 'message_stop' }),
    );
    return frames;
  },

  error: (status, message) => ({
    type: 'error',
    error: { type: ERROR_TYPES[status] ?? 'api_error', message },
    request_id: 'req_scripted',
  }),
  tooManyTokens: ({ model, maxTokens }, most) =>
    `max_tokens: ${maxTokens} > ${most}, which is the maximum allowed number of output tokens for ${model}`,
  errorFrame: (message) => sse('error', { type: 'error', error: { type: 'overloaded_error', message } }),
  refusals: {
    quota: [
      429,
      {
        type: 'error',
        error: {
          type: 'rate_limit_error',
          message: 'This request would exceed the spend limit of your organization.',
          details: { error_code: 'enforced_spend_limit_reached' },
        },
      },
    ],
    spend: refused(400, 'Your credit balance is too low to access the Anthropic API.'),
    'too-large': refused(413, 'Request exceeds the maximum size', 'request_too_large'),
    overflow: refused(400, 'prompt is too long: 1012345 tokens > 1000000 maximum'),
  },
};

function refused(status: number, message: string, type = 'invalid_request_error'): [number, unknown] {
  return [status, { type: 'error', error: { type, message } }];
}

interface Block {
  readonly source?: { readonly type: string; readonly media_type?: string; readonly data?: string };
  readonly title?: string;
  readonly type: string;
  readonly text?: string;
  readonly id?: string;
  readonly name?: string;
  readonly input?: unknown;
  readonly tool_use_id?: string;
  readonly content?: string | Block[];
  readonly thinking?: string;
  readonly signature?: string;
  readonly cache_control?: object;
}

interface Message {
  readonly role: string;
  readonly content: string | Block[];
}

const blocksOf = (content: string | Block[] | undefined): Block[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? []);

/** Models that always think show their thoughts only on request. */
const hidesThoughts = ({ model, thinking }: { readonly model: string; readonly thinking?: Thinking }): boolean =>
  (models as Record<string, ModelFacts>)[model]?.thoughts === true &&
  thinking?.type !== 'between_tools' &&
  (thinking?.display ?? 'omitted') === 'omitted';

interface Thinking {
  readonly type: string;
  readonly display?: string;
}

const MAX_MARKS = 4;

const textOf = (content: string | Block[] | undefined): string =>
  blocksOf(content)
    .map((block) => (block.type === 'tool_result' ? textOf(block.content) : (block.text ?? '')))
    .filter((text) => text !== '')
    .join('\n');

/** Returns the images and documents of a message with their paths, including those in tool results. */
const filesIn = (blocks: readonly Block[]): [place: string, block: Block, isResult: boolean][] =>
  blocks.flatMap((block, index): [string, Block, boolean][] => {
    if (block.type === 'image' || block.type === 'document') return [[String(index), block, false]];
    if (block.type !== 'tool_result' || typeof block.content === 'string') return [];
    return filesIn(block.content ?? []).map(([place, inner]) => [`${index}.tool_result.content.${place}`, inner, true]);
  });

const IMAGE_TYPES = ['image/jpeg', 'image/png', 'image/gif', 'image/webp'];
const MAX_IMAGE_BASE64 = 5_242_880;
const MAX_REQUEST_BYTES = 32 * 1024 ** 2;

function addFile(files: FileLedger, { type, source, title }: Block, at: string, isResult: boolean): void {
  const { media_type, data = '' } = source ?? {};
  const place = `${at}.${type}.source.base64`;
  if (source?.type !== 'base64') {
    files.problem ??= `${at}.${type}.source: only base64 is scripted here`;
    return;
  }
  files.add(data, { name: title, isResult }, (file) => {
    if (type === 'document') {
      if (media_type !== 'application/pdf') return `${place}.media_type: Input should be 'application/pdf'`;
      return file?.mediaType === media_type
        ? undefined
        : `${at}.pdf.source.base64.data: The PDF specified was not valid.`;
    }
    if (data === '') return `${place}: image cannot be empty`;
    if (!IMAGE_TYPES.includes(media_type!)) {
      return `${place}.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'`;
    }
    if (data.length > MAX_IMAGE_BASE64) {
      return `${place}: image exceeds 5 MB maximum: ${data.length} bytes > ${MAX_IMAGE_BASE64} bytes`;
    }
    if (file === undefined) return 'Could not process image';
    if (file.mediaType !== media_type) {
      return `${place}.data: The image was specified using the ${media_type} media type, but the image appears to be a ${file.mediaType} image`;
    }
    return undefined;
  });
}

/** Returns a problem that only the request as a whole can have. */
function tooManyOf(files: readonly SeenFile[]): string | undefined {
  const images = files.filter(({ mediaType }) => mediaType.startsWith('image/'));
  if (files.reduce((sum, { bytes }) => sum + bytes.byteLength, 0) * (4 / 3) > MAX_REQUEST_BYTES) {
    return 'Request exceeds the maximum size';
  }
  const [most, kind] = images.length > 20 ? [2000, ' for many-image requests'] : [8000, ''];
  if (images.some(({ size }) => size && Math.max(size.width, size.height) > most)) {
    return `messages.0.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed size${kind}: ${most} pixels`;
  }
  if (images.length > 600) return 'Too many images in the request: the maximum is 600.';
  const pages = files.reduce((sum, file) => sum + (file.pages ?? 0), 0);
  return pages > 600 ? 'A maximum of 600 PDF pages may be provided.' : undefined;
}

const head = ({ id, model }: Answer) => ({
  id: `msg_${id}`,
  type: 'message',
  role: 'assistant',
  model,
  stop_sequence: null,
});

const inputUsage = ({ usage }: Answer) => ({
  input_tokens: usage.input,
  cache_creation_input_tokens: usage.cacheWrite,
  cache_read_input_tokens: usage.cacheRead,
});

const contentOf = ({ thinking, text, toolCalls, prefix }: Answer): object[] => [
  ...(thinking === undefined ? [] : [{ type: 'thinking', thinking, signature: signatureOf(thinking, prefix) }]),
  ...(text === '' ? [] : [{ type: 'text', text }]),
  ...toolCalls.map(({ id, name, json }) => ({ type: 'tool_use', id, name, input: JSON.parse(json) })),
];

const STOP_REASONS = {
  stop: 'end_turn',
  tool_calls: 'tool_use',
  length: 'max_tokens',
  window: 'model_context_window_exceeded',
  pause: 'pause_turn',
  content_filter: 'refusal',
};

const ERROR_TYPES: Record<number, string> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
  529: 'overloaded_error',
};
