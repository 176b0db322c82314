import { createServer } from 'node:http';

/**
 * A language model that costs next to nothing, in Anthropic's wire format, for both sides of a measurement:
 * `node llm-server.ts`; prints its port. `claude-bench` answers at once, `claude-bench-500` after 500 ms. Offered tools,
 * it uses one called `echo` in each of its first two turns, and `claude-bench-turns-12` in its first twelve.
 * A GET answers when it was asked since the last GET: a list of epoch milliseconds.
 */
const TEXT = { type: 'text', text: '{"greeting":"Hello, Ada!"}' };
const toolUse = (turn: number) => ({
  type: 'tool_use',
  id: `toolu_${turn}`,
  name: 'echo',
  input: { text: `again, ${turn}` },
});

const answer = (content: object, stopReason: string): Buffer =>
  Buffer.from(
    JSON.stringify({
      id: 'msg_bench',
      type: 'message',
      role: 'assistant',
      model: 'claude-bench',
      content: [content],
      stop_reason: stopReason,
      stop_sequence: null,
      usage: { input_tokens: 20, output_tokens: 10 },
    }),
  );
const PLAIN = answer(TEXT, 'end_turn');

let askedAt: number[] = [];

const server = createServer(async (request, response) => {
  if (request.method === 'GET') {
    response.end(JSON.stringify(askedAt));
    askedAt = [];
    return;
  }
  askedAt.push(Date.now());
  const text = Buffer.concat(await request.toArray()).toString();
  const turn = text.split('"tool_result"').length;
  const toolTurns = Number(/claude-bench-turns-(\d+)/.exec(text)?.[1] ?? 2);
  const body = text.includes('"tools":[{') && turn <= toolTurns ? answer(toolUse(turn), 'tool_use') : PLAIN;
  const send = () =>
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length }).end(body);
  if (text.includes('claude-bench-500')) setTimeout(send, 500);
  else send();
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') process.stdout.write(`${address.port}\n`);
});
