import { FileLedger } from './files.ts';
import { openaiSchemaProblem } from './schema-rules.ts';
import { toolChoiceOf } from './tool-choice.ts';
import { type Answer, bearer, joined, pieces, type Read, ToolLedger, type Wire } from './turns.ts';

/** OpenAI's chat completions, which local model servers also offer: `POST /chat/completions`. */
export const openaiChat: Wire = {
  keyOf: bearer,

  read(body): Read {
    const messages: Message[] = body.messages ?? [];
    const ledger = new ToolLedger();
    const files = new FileLedger();
    let isWrongResult = false;
    for (const message of messages) {
      if (message.role === 'tool') {
        ledger.result(message.tool_call_id!);
        // A serialized byte array means that a file was sent as JSON.
        isWrongResult ||= typeof message.content !== 'string' || /"0":\d+,"1":\d+/.test(message.content);
      } else ledger.settle();
      for (const part of typeof message.content === 'string' ? [] : (message.content ?? [])) addFile(files, part);
      for (const call of message.tool_calls ?? []) ledger.call(call.id);
    }
    ledger.settle();
    const texts = messages.map(({ content }) => textOf(content));
    const text = joined(texts);
    const model = String(body.model);
    const declared = (body.tools ?? []).map((tool: { function: { name: string } }) => tool.function.name);
    const chosen = body.tool_choice?.function && { type: 'tool', name: body.tool_choice.function.name };
    const choice = toolChoiceOf(model, declared, chosen);
    let problem = choice.problem ?? ledger.problem ?? files.problem;
    if (isWrongResult) problem ??= "Invalid type for 'messages.content' of a tool: expected the text of its result.";
    if (messages.length === 0) problem ??= "Invalid 'messages': empty array.";
    if (body.response_format?.type === 'json_object' && !/json/i.test(text))
      problem ??=
        "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.";
    const { json_schema: format } = body.response_format ?? {};
    // Self-hosted servers accept more than OpenAI does.
    if (format !== undefined) problem ??= openaiSchemaProblem(`response_format '${format.name}'`, format.schema, false);
    return {
      model,
      files: files.files,
      stream: body.stream === true,
      text,
      lastText: texts.at(-1) ?? '',
      maxTokens: body.max_completion_tokens ?? body.max_tokens,
      parts: [body.tools ?? [], ...messages],
      turns: messages.filter(({ role }) => role === 'assistant').length,
      forced: choice.forced,
      problem,
    };
  },

  body: (answer) => ({
    ...head(answer, 'chat.completion'),
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: answer.text === '' ? null : answer.text,
          refusal: null,
          ...(answer.toolCalls.length > 0 && { tool_calls: answer.toolCalls.map((call) => callOf(call, answer)) }),
        },
        logprobs: null,
        finish_reason: finishOf(answer),
      },
    ],
    usage: usageOf(answer),
  }),

  frames(answer) {
    const chunk = (delta: object, finish_reason: string | null = null): string =>
      data({
        ...head(answer, 'chat.completion.chunk'),
        choices: [{ index: 0, delta, logprobs: null, finish_reason }],
      });
    return [
      chunk({ role: 'assistant', content: '' }),
      ...pieces(answer.text).map((content) => chunk({ content })),
      ...answer.toolCalls.flatMap((call, index) => [
        chunk({ tool_calls: [{ index, ...callOf(answer.objectArguments ? call : { ...call, json: '' }, answer) }] }),
        ...pieces(answer.objectArguments ? '' : call.json).map((json) =>
          chunk({ tool_calls: [{ index, function: { arguments: json } }] }),
        ),
      ]),
      chunk({}, finishOf(answer)),
      data({ ...head(answer, 'chat.completion.chunk'), choices: [], usage: usageOf(answer) }),
      'data: [DONE]\n\n',
    ];
  },

  error: (status, message) => ({ error: errorOf(status, message) }),
  tooManyTokens: ({ maxTokens }, most) =>
    `max_tokens is too large: ${maxTokens}. This model supports at most ${most} completion tokens, whereas you provided ${maxTokens}.`,
  errorFrame: (message) => data({ error: errorOf(500, message) }),
  refusals: {
    overflow: [
      400,
      {
        error: {
          code: 400,
          message: 'the request exceeds the available context size, try increasing it',
          type: 'exceed_context_size_error',
        },
      },
    ],
  },
};

/** Returns an error body; the Responses API uses it too. */
export const errorOf = (status: number, message: string) => ({
  message,
  type: status === 429 ? 'requests' : status >= 500 ? 'server_error' : 'invalid_request_error',
  param: null,
  code: status === 401 ? 'invalid_api_key' : status === 429 ? 'rate_limit_exceeded' : null,
});

interface Part {
  readonly type?: string;
  readonly text?: string;
  readonly image_url?: { readonly url: string };
  readonly input_audio?: { readonly data: string; readonly format: string };
}

/** Accepts the files that all servers of open models support: images, and audio in two formats. */
function addFile(files: FileLedger, { type, image_url, input_audio }: Part): void {
  if (type === 'text') return;
  const [, mediaType, data = ''] = /^data:(image\/[a-z]+);base64,(.*)$/s.exec(image_url?.url ?? '') ?? [];
  const audioType = { wav: 'audio/wav', mp3: 'audio/mpeg' }[input_audio?.format ?? ''];
  files.add(input_audio?.data ?? data, { isResult: false }, (file) => {
    if (image_url === undefined && input_audio === undefined) return `unsupported content[].type: ${type}`;
    return file !== undefined && file.mediaType === (audioType ?? mediaType)
      ? undefined
      : 'Failed to load image or audio file';
  });
}

interface Message {
  readonly role: string;
  readonly content?: string | Part[] | null;
  readonly tool_calls?: { readonly id: string }[];
  readonly tool_call_id?: string;
}

const textOf = (content: Message['content']): string =>
  typeof content === 'string' ? content : (content ?? []).map(({ text }) => text ?? '').join('\n');

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;

const finishOf = ({ finish }: Answer): string =>
  finish === 'window' ? 'length' : finish === 'pause' ? 'stop' : finish;

const head = ({ id, model }: Answer, object: string) => ({
  id: `chatcmpl-${id}`,
  object,
  created: 1_790_000_000,
  model,
  system_fingerprint: 'fp_scripted',
});

const callOf = ({ id, name, json }: Answer['toolCalls'][number], { objectArguments }: Answer) => ({
  id,
  type: 'function',
  function: { name, arguments: objectArguments ? JSON.parse(json) : json },
});

const usageOf = ({ usage }: Answer) => ({
  prompt_tokens: usage.input,
  completion_tokens: usage.output,
  total_tokens: usage.input + usage.output,
  prompt_tokens_details: { cached_tokens: usage.cacheRead },
  completion_tokens_details: { reasoning_tokens: 0 },
});
