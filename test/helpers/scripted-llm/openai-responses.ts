import { errorOf } from './openai-chat.ts';
import { type Answer, type Asked, bearer, joined, pieces, signatureOf, sse, ToolLedger, type Wire } from './turns.ts';

/** OpenAI's Responses API: `POST /responses`. */
export const openaiResponses: Wire = {
  keyOf: bearer,

  read(body): Asked {
    const items: Item[] = typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : (body.input ?? []);
    const ledger = new ToolLedger();
    const texts: string[] = [body.instructions ?? ''];
    let problem: string | undefined;
    let turns = 0;
    let inTurn = false;
    for (const item of items) {
      const isModels = item.role === 'assistant' || ['reasoning', 'function_call'].includes(item.type ?? '');
      if (isModels && !inTurn) turns++;
      inTurn = isModels;
      if (item.type === 'function_call_output') ledger.result(item.call_id!);
      else if (item.type === 'function_call') ledger.call(item.call_id!);
      else ledger.settle();
      if (
        item.type === 'reasoning' &&
        item.encrypted_content !== signatureOf((item.summary ?? []).map(({ text }) => text).join(''))
      )
        problem ??= 'The encrypted content of a reasoning item could not be verified.';
      texts.push(textOf(item.content ?? item.output));
    }
    ledger.settle();
    const text = joined(texts);
    if (items.length === 0) problem ??= "Missing required parameter: 'input'.";
    if (body.text?.format?.type === 'json_object' && !/json/i.test(text))
      problem ??=
        "Response input messages must contain the word 'json' in some form to use 'text.format' of type 'json_object'.";
    return {
      model: String(body.model),
      stream: body.stream === true,
      text,
      lastText: texts.at(-1)!,
      turns,
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
  errorFrame: (message) =>
    sse('error', {
      type: 'error',
      sequence_number: 99,
      error: { type: 'server_error', code: 'server_error', message, param: null },
    }),
};

interface Item {
  readonly type?: string;
  readonly role?: string;
  readonly call_id?: string;
  readonly content?: string | { readonly text?: string }[];
  readonly output?: string | { readonly text?: string }[];
  readonly summary?: { readonly text: string }[];
  readonly encrypted_content?: string | null;
}

const textOf = (content: Item['content']): string =>
  typeof content === 'string' ? content : (content ?? []).map(({ text }) => text ?? '').join('\n');

/** What an item has not yet when it is added. */
const EMPTY: Record<string, object> = {
  message: { content: [] },
  function_call: { arguments: '' },
  reasoning: { summary: [] },
};

const isCut = ({ finish }: Answer): boolean => finish === 'length' || finish === 'content_filter';

const outputOf = ({ id, thinking, text, toolCalls, finish }: Answer) => [
  ...(thinking === undefined
    ? []
    : [
        {
          type: 'reasoning' as const,
          id: `rs_${id}`,
          summary: [{ type: 'summary_text', text: thinking }],
          encrypted_content: signatureOf(thinking),
        },
      ]),
  ...(text === ''
    ? []
    : [
        {
          type: 'message' as const,
          id: `msg_${id}`,
          role: 'assistant',
          status: finish === 'length' ? 'incomplete' : 'completed',
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
    isDone && isCut(answer) ? { reason: answer.finish === 'length' ? 'max_output_tokens' : 'content_filter' } : null,
  model: answer.model,
  output,
  parallel_tool_calls: true,
  service_tier: 'default',
  usage: isDone
    ? {
        input_tokens: answer.usage.input,
        input_tokens_details: { cached_tokens: answer.usage.cacheRead },
        output_tokens: answer.usage.output,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: answer.usage.input + answer.usage.output,
      }
    : null,
});
