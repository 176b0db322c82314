import { type Answer, type Asked, bearer, joined, pieces, ToolLedger, type Wire } from './turns.ts';

/** OpenAI's chat completions, which local model servers speak: `POST /chat/completions`. */
export const openaiChat: Wire = {
  keyOf: bearer,

  read(body): Asked {
    const messages: Message[] = body.messages ?? [];
    const ledger = new ToolLedger();
    for (const message of messages) {
      if (message.role === 'tool') ledger.result(message.tool_call_id!);
      else ledger.settle();
      for (const call of message.tool_calls ?? []) ledger.call(call.id);
    }
    ledger.settle();
    const texts = messages.map(({ content }) => textOf(content));
    const text = joined(texts);
    let problem = ledger.problem;
    if (messages.length === 0) problem ??= "Invalid 'messages': empty array.";
    if (body.response_format?.type === 'json_object' && !/json/i.test(text))
      problem ??=
        "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.";
    return {
      model: String(body.model),
      stream: body.stream === true,
      text,
      lastText: texts.at(-1) ?? '',
      turns: messages.filter(({ role }) => role === 'assistant').length,
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
          ...(answer.toolCalls.length > 0 && { tool_calls: answer.toolCalls.map(callOf) }),
        },
        logprobs: null,
        finish_reason: answer.finish,
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
        chunk({ tool_calls: [{ index, ...callOf({ ...call, json: '' }) }] }),
        ...pieces(call.json).map((json) => chunk({ tool_calls: [{ index, function: { arguments: json } }] })),
      ]),
      chunk({}, answer.finish),
      data({ ...head(answer, 'chat.completion.chunk'), choices: [], usage: usageOf(answer) }),
      'data: [DONE]\n\n',
    ];
  },

  error: (status, message) => ({ error: errorOf(status, message) }),
  errorFrame: (message) => data({ error: errorOf(500, message) }),
};

/** Also of the Responses API. */
export const errorOf = (status: number, message: string) => ({
  message,
  type: status === 429 ? 'requests' : status >= 500 ? 'server_error' : 'invalid_request_error',
  param: null,
  code: status === 401 ? 'invalid_api_key' : status === 429 ? 'rate_limit_exceeded' : null,
});

interface Message {
  readonly role: string;
  readonly content?: string | { readonly text?: string }[] | null;
  readonly tool_calls?: { readonly id: string }[];
  readonly tool_call_id?: string;
}

const textOf = (content: Message['content']): string =>
  typeof content === 'string' ? content : (content ?? []).map(({ text }) => text ?? '').join('\n');

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;

const head = ({ id, model }: Answer, object: string) => ({
  id: `chatcmpl-${id}`,
  object,
  created: 1_790_000_000,
  model,
  system_fingerprint: 'fp_scripted',
});

const callOf = ({ id, name, json }: Answer['toolCalls'][number]) => ({
  id,
  type: 'function',
  function: { name, arguments: json },
});

const usageOf = ({ usage }: Answer) => ({
  prompt_tokens: usage.input,
  completion_tokens: usage.output,
  total_tokens: usage.input + usage.output,
  prompt_tokens_details: { cached_tokens: usage.cacheRead },
  completion_tokens_details: { reasoning_tokens: 0 },
});
