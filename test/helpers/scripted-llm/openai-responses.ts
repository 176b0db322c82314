import { FileLedger } from './files.ts';
import { errorOf } from './openai-chat.ts';
import { NAME, namePattern, openaiSchemaProblem, openaiToolProblem } from './schema-rules.ts';
import { toolChoiceOf } from './tool-choice.ts';
import {
  type Answer,
  bearer,
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

/** OpenAI's Responses API: `POST /responses`. */
export const openaiResponses: Wire = {
  // Azure uses the second header instead.
  keyOf: (headers) => bearer(headers) ?? headers['api-key']?.toString(),

  read(body): Read {
    const items: Item[] = typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : (body.input ?? []);
    const ledger = new ToolLedger();
    const files = new FileLedger();
    const texts: string[] = [body.instructions ?? ''];
    const parts: unknown[] = [body.tools ?? [], body.instructions ?? ''];
    const signed: Signed[] = [];
    const { forced, problem: choiceProblem } = toolChoiceOf(String(body.model), namesOf(body.tools), chosenIn(body));
    let problem = choiceProblem;
    let turns = 0;
    let inTurn = false;
    for (const item of items) {
      const isModels = item.role === 'assistant' || ['reasoning', 'function_call'].includes(item.type ?? '');
      if (isModels && !inTurn) turns++;
      inTurn = isModels;
      if (item.type === 'function_call_output') ledger.result(item.call_id!);
      else if (item.type === 'function_call') ledger.call(item.call_id!);
      else ledger.settle();
      if (item.type === 'function_call' && !NAME.test(item.name!))
        problem ??= `Invalid 'input.name': ${namePattern(NAME)}`;
      if ((item.call_id ?? 'id').length > 64 || item.call_id === '')
        problem ??= "Invalid 'input.call_id': expected a string with 1 to 64 characters.";
      if (item.type === 'reasoning') {
        signed.push({ part: parts.length, signature: item.encrypted_content ?? '' });
        if (!isSigned((item.summary ?? []).map(({ text }) => text).join(''), item.encrypted_content))
          problem ??= 'The encrypted content of a reasoning item could not be verified.';
      }
      parts.push(item);
      texts.push(textOf(item.content ?? item.output));
      for (const part of partsOf(item.content ?? item.output)) addFile(files, part, item.output !== undefined);
    }
    ledger.settle();
    const text = joined(texts);
    if (items.length === 0) problem ??= "Missing required parameter: 'input'.";
    if (body.text?.format?.type === 'json_object' && !/json/i.test(text))
      problem ??=
        "Response input messages must contain the word 'json' in some form to use 'text.format' of type 'json_object'.";
    problem ??= files.problem;
    const { format } = body.text ?? {};
    if (format?.type === 'json_schema')
      problem ??= openaiSchemaProblem(`response_format '${format.name}'`, format.schema, format.strict);
    for (const tool of body.tools ?? [])
      problem ??=
        openaiToolProblem(tool) ?? openaiSchemaProblem(`function '${tool.name}'`, tool.parameters, tool.strict);
    return {
      model: String(body.model),
      files: files.files,
      stream: body.stream === true,
      text,
      lastText: texts.at(-1)!,
      maxTokens: body.max_output_tokens,
      turns,
      forced,
      parts,
      signed,
      cache: { kind: 'prefix', route: body.prompt_cache_key },
      problem: problem ?? ledger.problem,
    };
  },

  body: (answer) => responseOf(answer, outputOf(answer), true),

  frames(answer) {
    let sequence_number = 0;
    const event = (type: string, members: object): string =>
      sse(type, { type, sequence_number: sequence_number++, ...members });
    const frames = [
      event('response.created', { response: responseOf(answer, [], false) }),
      event('response.in_progress', { response: responseOf(answer, [], false) }),
    ];
    for (const [output_index, item] of outputOf(answer).entries()) {
      const at = { item_id: item.id, output_index };
      const added = { ...item, ...('status' in item && { status: 'in_progress' }), ...EMPTY[item.type] };
      frames.push(event('response.output_item.added', { output_index, item: added }));
      if (item.type === 'message') {
        const part = item.content[0]!;
        frames.push(
          event('response.content_part.added', { ...at, content_index: 0, part: { ...part, text: '' } }),
          ...pieces(part.text).map((delta) =>
            event('response.output_text.delta', { ...at, content_index: 0, delta, logprobs: [] }),
          ),
          event('response.output_text.done', { ...at, content_index: 0, text: part.text, logprobs: [] }),
          event('response.content_part.done', { ...at, content_index: 0, part }),
        );
      }
      if (item.type === 'function_call') {
        frames.push(
          ...pieces(item.arguments).map((delta) => event('response.function_call_arguments.delta', { ...at, delta })),
          event('response.function_call_arguments.done', { ...at, name: item.name, arguments: item.arguments }),
        );
      }
      if (item.type === 'reasoning') {
        const part = item.summary[0]!;
        frames.push(
          event('response.reasoning_summary_part.added', { ...at, summary_index: 0, part: { ...part, text: '' } }),
          ...pieces(part.text).map((delta) =>
            event('response.reasoning_summary_text.delta', { ...at, summary_index: 0, delta }),
          ),
          event('response.reasoning_summary_text.done', { ...at, summary_index: 0, text: part.text }),
          event('response.reasoning_summary_part.done', { ...at, summary_index: 0, part }),
        );
      }
      frames.push(event('response.output_item.done', { output_index, item }));
    }
    const last = isCut(answer) ? 'response.incomplete' : 'response.completed';
    frames.push(event(last, { response: responseOf(answer, outputOf(answer), true) }));
    return frames;
  },

  error: (status, message) => ({ error: errorOf(status, message) }),
  tooManyTokens: ({ maxTokens }, most) =>
    `Invalid 'max_output_tokens': integer above maximum value. Expected a value <= ${most}, but got ${maxTokens} instead.`,
  errorFrame: (message) =>
    sse('error', {
      type: 'error',
      sequence_number: 99,
      error: { type: 'server_error', code: 'server_error', message, param: null },
    }),
  refusals: {
    quota: refused(
      429,
      'You exceeded your current quota, please check your plan and billing details.',
      'insufficient_quota',
    ),
    spend: refused(429, 'Your credit balance is exhausted.', 'credit_balance_exhausted'),
    'too-large': refused(
      429,
      'Request too large for gpt-6-sol in organization org-1 on tokens per min (TPM): Limit 30000, Requested 41000.',
      'rate_limit_exceeded',
      'tokens',
    ),
    overflow: refused(
      400,
      'Your input exceeds the context window of this model. Please adjust your input and try again.',
      'context_length_exceeded',
      'invalid_request_error',
    ),
  },
};

function refused(status: number, message: string, code: string, type = code): [number, unknown] {
  return [status, { error: { message, type, param: null, code } }];
}

interface Tool {
  readonly name: string;
}

const namesOf = (tools: readonly Tool[] = []): string[] => tools.map(({ name }) => name);

/** Returns the forced tool; `allowed_tools` counts only if it leaves one tool and requires it. */
function chosenIn({
  tool_choice: choice,
}: {
  tool_choice?: { type: string; name?: string; mode?: string; tools?: Tool[] };
}) {
  if (choice?.type === 'function') return { type: 'tool', name: choice.name! };
  const allowed = choice?.type === 'allowed_tools' && choice.mode === 'required' ? namesOf(choice.tools) : [];
  return allowed.length === 1 ? { type: 'tool', name: allowed[0]! } : undefined;
}

interface Part {
  readonly type?: string;
  readonly text?: string;
  readonly image_url?: string;
  readonly filename?: string;
  readonly file_data?: string;
}

const partsOf = (content: Item['content']): readonly Part[] => (typeof content === 'string' ? [] : (content ?? []));

const IMAGE_URL = /^data:(image\/[a-z]+);base64,(.*)$/s;
const FILE_DATA = /^data:(application\/pdf);base64,(.*)$/s;

function addFile(files: FileLedger, { type, image_url = '', filename, file_data = '' }: Part, isResult: boolean): void {
  if (type !== 'input_image' && type !== 'input_file') return;
  const isImage = type === 'input_image';
  const [, mediaType, data = ''] = (isImage ? IMAGE_URL.exec(image_url) : FILE_DATA.exec(file_data)) ?? [];
  files.add(data, { name: filename, isResult }, (file) => {
    if (isImage) {
      const isTaken = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'].includes(mediaType!);
      if (isTaken && file?.mediaType === mediaType) return undefined;
      return "You uploaded an unsupported image. Please make sure your image has of one of the following formats: ['png', 'jpeg', 'gif', 'webp'].";
    }
    if (!filename) return "Missing required parameter: 'input[0].content[0].filename'.";
    if (!/\.pdf$/i.test(filename)) {
      return `Invalid input: Expected context stuffing file type to be a supported format: .pdf but got ${filename}.`;
    }
    return file?.mediaType === mediaType ? undefined : 'The file you uploaded is not a valid PDF.';
  });
}

interface Item {
  readonly type?: string;
  readonly role?: string;
  readonly call_id?: string;
  readonly name?: string;
  readonly content?: string | Part[];
  readonly output?: string | Part[];
  readonly summary?: { readonly text: string }[];
  readonly encrypted_content?: string | null;
}

const textOf = (content: Item['content']): string =>
  typeof content === 'string' ? content : (content ?? []).map(({ text }) => text ?? '').join('\n');

/** Fields that are still empty when an item is added. */
const EMPTY: Record<string, object> = {
  message: { content: [] },
  function_call: { arguments: '' },
  reasoning: { summary: [] },
};

const isCut = ({ finish }: Answer): boolean => ['length', 'window', 'content_filter'].includes(finish);

const outputOf = ({ id, thinking, text, toolCalls, finish, prefix }: Answer) => [
  ...(thinking === undefined
    ? []
    : [
        {
          type: 'reasoning' as const,
          id: `rs_${id}`,
          summary: [{ type: 'summary_text', text: thinking }],
          encrypted_content: signatureOf(thinking, prefix),
        },
      ]),
  ...(text === ''
    ? []
    : [
        {
          type: 'message' as const,
          id: `msg_${id}`,
          role: 'assistant',
          status: finish === 'length' || finish === 'window' ? 'incomplete' : 'completed',
          content: [{ type: 'output_text', text, annotations: [], logprobs: [] }],
        },
      ]),
  ...toolCalls.map((call) => ({
    type: 'function_call' as const,
    id: `fc_${call.id}`,
    call_id: call.id,
    name: call.name,
    arguments: call.json,
    status: 'completed',
  })),
];

const responseOf = (answer: Answer, output: readonly object[], isDone: boolean) => ({
  id: `resp_${answer.id}`,
  object: 'response',
  created_at: 1_790_000_000,
  status: !isDone ? 'in_progress' : isCut(answer) ? 'incomplete' : 'completed',
  error: null,
  incomplete_details:
    isDone && isCut(answer)
      ? { reason: answer.finish === 'content_filter' ? 'content_filter' : 'max_output_tokens' }
      : null,
  model: answer.model,
  output,
  parallel_tool_calls: true,
  service_tier: 'default',
  usage: isDone
    ? {
        input_tokens: answer.usage.input,
        input_tokens_details: {
          cached_tokens: answer.usage.cacheRead,
          cache_write_tokens: answer.usage.cacheWrite,
        },
        output_tokens: answer.usage.output,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: answer.usage.input + answer.usage.output,
      }
    : null,
});
