import { type Answer, type Asked, joined, pieces, signatureOf, sse, ToolLedger, type Wire } from './turns.ts';

/** Anthropic's Messages API: `POST /messages`. */
export const anthropic: Wire = {
  keyOf: (headers) => (typeof headers['x-api-key'] === 'string' ? headers['x-api-key'] : undefined),

  read(body, _url, headers): Asked {
    const messages: Message[] = body.messages ?? [];
    const ledger = new ToolLedger();
    const texts: string[] = [textOf(body.system)];
    let problem: string | undefined;
    for (const [index, message] of messages.entries()) {
      const blocks = blocksOf(message.content);
      texts.push(textOf(blocks));
      if (message.role !== (index % 2 === 0 ? 'user' : 'assistant')) problem ??= 'messages: roles must alternate.';
      // Within a user turn the results come first.
      if (message.role === 'user')
        for (const block of blocks) if (block.type === 'tool_result') ledger.result(block.tool_use_id!);
      ledger.settle();
      for (const block of blocks) {
        if (block.type === 'tool_use') ledger.call(block.id!);
        if (block.type === 'thinking' && block.signature !== signatureOf(block.thinking!))
          problem ??= `messages.${index}: Invalid \`signature\` in \`thinking\` block`;
        if (block.type === 'text' && block.text === '')
          problem ??= `messages.${index}: text content blocks must be non-empty`;
      }
    }
    ledger.settle();
    if (headers['anthropic-version'] === undefined) problem ??= 'anthropic-version: header is required';
    if (typeof body.max_tokens !== 'number') problem ??= 'max_tokens: Field required';
    if (messages.length === 0) problem ??= 'messages: at least one message is required';
    return {
      model: String(body.model),
      stream: body.stream === true,
      text: joined(texts),
      lastText: texts.at(-1)!,
      turns: messages.filter(({ role }) => role === 'assistant').length,
      problem: problem ?? ledger.problem,
    };
  },

  body: (answer) => ({
    ...head(answer),
    content: contentOf(answer),
    stop_reason: STOP_REASONS[answer.finish],
    usage: { ...inputUsage(answer), output_tokens: answer.usage.output },
  }),

  frames(answer) {
    const frames = [
      sse('message_start', {
        type: 'message_start',
        message: {
          ...head(answer),
          content: [],
          stop_reason: null,
          usage: { ...inputUsage(answer), output_tokens: 1 },
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
        { type: 'signature_delta', signature: signatureOf(answer.thinking) },
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
        usage: { output_tokens: answer.usage.output },
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
  errorFrame: (message) => sse('error', { type: 'error', error: { type: 'overloaded_error', message } }),
};

interface Block {
  readonly type: string;
  readonly text?: string;
  readonly id?: string;
  readonly tool_use_id?: string;
  readonly content?: string | Block[];
  readonly thinking?: string;
  readonly signature?: string;
}

interface Message {
  readonly role: string;
  readonly content: string | Block[];
}

const blocksOf = (content: string | Block[] | undefined): Block[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? []);

const textOf = (content: string | Block[] | undefined): string =>
  blocksOf(content)
    .map((block) => (block.type === 'tool_result' ? textOf(block.content) : (block.text ?? '')))
    .filter((text) => text !== '')
    .join('\n');

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

const contentOf = ({ thinking, text, toolCalls }: Answer): object[] => [
  ...(thinking === undefined ? [] : [{ type: 'thinking', thinking, signature: signatureOf(thinking) }]),
  ...(text === '' ? [] : [{ type: 'text', text }]),
  ...toolCalls.map(({ id, name, json }) => ({ type: 'tool_use', id, name, input: JSON.parse(json) })),
];

const STOP_REASONS = { stop: 'end_turn', tool_calls: 'tool_use', length: 'max_tokens', content_filter: 'refusal' };

const ERROR_TYPES: Record<number, string> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
  529: 'overloaded_error',
};
