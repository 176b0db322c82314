import { Agent, createServer, request as httpRequest } from 'node:http';

/** The baseline: `node:http` that only calls the LLM and returns its text: `node bare-proxy.ts LLM_URL MODEL`. */
const [llmUrl, model] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true, maxSockets: 1000 });
const headers = {
  'content-type': 'application/json',
  'x-api-key': 'sk-ant-bench',
  'anthropic-version': '2023-06-01',
};

const server = createServer(async (incoming, outgoing) => {
  const { name } = JSON.parse(Buffer.concat(await incoming.toArray()).toString());
  const body = JSON.stringify({
    model,
    max_tokens: 4096,
    messages: [{ role: 'user', content: `Greet ${name}.` }],
  });
  const call = httpRequest(`${llmUrl}/v1/messages`, { method: 'POST', agent, headers }, async (answer) => {
    const { content } = JSON.parse(Buffer.concat(await answer.toArray()).toString());
    const text = Buffer.from(content[0].text);
    outgoing.writeHead(200, { 'content-type': 'application/json', 'content-length': text.length }).end(text);
  });
  call.end(body);
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') process.stdout.write(`${address.port}\n`);
});
