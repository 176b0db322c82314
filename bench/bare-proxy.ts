import { Agent, createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';

/**
 * Baseline: a `node:http` server that only calls the LLM and returns its text: `node bare-proxy.ts LLM_URL MODEL`. A
 * request
 * that accepts `text/event-stream` gets the LLM's stream. OpenAI models are called in OpenAI's format.
 */
const [llmUrl, model = ''] = process.argv.slice(2);
const isOpenai = model.startsWith('gpt-');
const agent = new Agent({ keepAlive: true, maxSockets: 1000 });
const headers = {
  'content-type': 'application/json',
  'x-api-key': 'sk-ant-bench',
  'anthropic-version': '2023-06-01',
};

function passOn(answer: IncomingMessage, outgoing: ServerResponse): void {
  outgoing.writeHead(200, { 'content-type': 'text/event-stream' });
  answer.pipe(outgoing);
}

async function answerWhole(answer: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const { content, output } = JSON.parse(Buffer.concat(await answer.toArray()).toString());
  const text = Buffer.from((isOpenai ? output[0].content : content)[0].text);
  outgoing.writeHead(200, { 'content-type': 'application/json', 'content-length': text.length }).end(text);
}

const server = createServer(async (incoming, outgoing) => {
  const { name } = JSON.parse(Buffer.concat(await incoming.toArray()).toString());
  const isStreamed = incoming.headers.accept === 'text/event-stream';
  const messages = [{ role: 'user', content: `Greet ${name}.` }];
  const body = JSON.stringify({
    model,
    ...(isOpenai ? { max_output_tokens: 4096, input: messages } : { max_tokens: 4096, messages }),
    ...(isStreamed && { stream: true }),
  });
  const take = isStreamed ? passOn : answerWhole;
  const call = httpRequest(
    `${llmUrl}/v1/${isOpenai ? 'responses' : 'messages'}`,
    { method: 'POST', agent, headers },
    (answer) => {
      void take(answer, outgoing);
    },
  );
  call.end(body);
});
server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') process.stdout.write(`${address.port}\n`);
});
