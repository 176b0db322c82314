import { createServer, type ServerResponse } from 'node:http';

/**
 * A language model with minimal cost in Anthropic's wire format, for both sides of a measurement: `node llm-server.ts`;
 * prints
 * its port. At the path of OpenAI's Responses API it answers at once in that format, without tools or streams.
 * `claude-bench` answers at once, `claude-bench-500` after 500 ms, and so on. If tools are offered, it calls one named `echo` in
 * each of its first two turns, and `claude-bench-turns-12` in its first twelve. `claude-bench-ask` calls `ask_human` in its
 * first turn, and `claude-bench-until-TIME` calls `wait` until then, in epoch milliseconds. A streamed text begins with the
 * machine's clock in nanoseconds, `t=NUMBER;`. A GET returns the times of the requests since the last GET, as a list of
 * epoch milliseconds.
 */
const SLOW = /claude-bench-(\d+)/;
const TEXT = { type: 'text', text: '{"greeting":"Hello, Ada!"}' };
const toolUse = (turn: number, text: string) => ({
  type: 'tool_use',
  id: `toolu_${turn}`,
  ...callIn(turn, text),
});

function callIn(turn: number, text: string): { readonly name: string; readonly input: object } {
  const [, until] = /claude-bench-until-(\d+)/.exec(text) ?? [];
  if (until !== undefined) return { name: 'wait', input: { until: new Date(Number(until)).toISOString() } };
  if (text.includes('claude-bench-ask')) return { name: 'ask_human', input: { question: 'Which colour?' } };
  return { name: 'echo', input: { text: `again, ${turn}` } };
}

const message = (content: readonly object[], stopReason: string | null) => ({
  id: 'msg_bench',
  type: 'message',
  role: 'assistant',
  model: 'claude-bench',
  content,
  stop_reason: stopReason,
  stop_sequence: null,
  usage: { input_tokens: 20, output_tokens: 10 },
});
const answer = (content: object, stopReason: string): Buffer =>
  Buffer.from(JSON.stringify(message([content], stopReason)));
const PLAIN = answer(TEXT, 'end_turn');

const OPENAI_PLAIN = Buffer.from(
  JSON.stringify({
    id: 'resp_bench',
    object: 'response',
    created_at: 1_790_000_000,
    status: 'completed',
    error: null,
    incomplete_details: null,
    model: 'gpt-9-bench',
    output: [
      {
        type: 'message',
        id: 'msg_bench',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: TEXT.text, annotations: [], logprobs: [] }],
      },
    ],
    usage: { input_tokens: 20, output_tokens: 10, total_tokens: 30 },
  }),
);

const event = (data: { readonly type: string; readonly [member: string]: unknown }): string =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
const begin = (block: object): string =>
  event({ type: 'message_start', message: message([], null) }) +
  event({ type: 'content_block_start', index: 0, content_block: block });
const delta = (piece: object): string => event({ type: 'content_block_delta', index: 0, delta: piece });
const end = (stopReason: string): string =>
  event({ type: 'content_block_stop', index: 0 }) +
  event({ type: 'message_delta', delta: { stop_reason: stopReason }, usage: { output_tokens: 10 } }) +
  event({ type: 'message_stop' });

const textDelta = (text: string): string => delta({ type: 'text_delta', text });
const BEGIN = begin({ type: 'text', text: '' });
const WORDS = Array.from({ length: 20 }, (_, index) => textDelta(`word ${index}, `));
const END = end('end_turn');
/** Final turn of a loop, unstreamed because the peers do not request streams. */
const WHOLE = BEGIN + textDelta(TEXT.text) + END;

/** Each chunk is sent in its own turn of the event loop, as if generated one by one. */
function streamWords(response: ServerResponse): void {
  response.write(BEGIN);
  let word = 0;
  const next = (): void => {
    if (word === WORDS.length) {
      response.end(END);
      return;
    }
    response.write(word === 0 ? textDelta(`t=${process.hrtime.bigint()};`) + WORDS[0] : WORDS[word]);
    word++;
    setImmediate(next);
  };
  setImmediate(next);
}

function streamToolUse(response: ServerResponse, turn: number, text: string): void {
  const { input, ...use } = toolUse(turn, text);
  const json = delta({ type: 'input_json_delta', partial_json: JSON.stringify(input) });
  response.end(begin({ ...use, input: {} }) + json + end('tool_use'));
}

let askedAt: number[] = [];

function reply(text: string, response: ServerResponse): void {
  const turn = text.split('"tool_result"').length;
  const mostTurns = /claude-bench-(?:ask|until)/.test(text) ? 1 : 2;
  const toolTurns = Number(/claude-bench-turns-(\d+)/.exec(text)?.[1] ?? mostTurns);
  const usesTool = text.includes('"tools":[{') && turn <= toolTurns;
  if (text.includes('"stream":true')) {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    if (usesTool) streamToolUse(response, turn, text);
    else if (text.includes('claude-bench-turns')) response.end(WHOLE);
    else streamWords(response);
    return;
  }
  sendJson(usesTool ? answer(toolUse(turn, text), 'tool_use') : PLAIN, response);
}

function sendJson(body: Buffer, response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length }).end(body);
}

const server = createServer((request, response) => {
  if (request.method === 'GET') {
    response.end(JSON.stringify(askedAt));
    askedAt = [];
    return;
  }
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    askedAt.push(Date.now());
    const text = Buffer.concat(chunks).toString();
    if (request.url?.endsWith('/responses')) sendJson(OPENAI_PLAIN, response);
    else if (SLOW.test(text)) setTimeout(reply, Number(SLOW.exec(text)![1]), text, response);
    else reply(text, response);
  });
});
server.keepAliveTimeout = 60_000;
// A burst of connections must not overflow the backlog, because overflowing connections wait for a second.
server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') process.stdout.write(`${address.port}\n`);
});
