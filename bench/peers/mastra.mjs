import { createServer } from 'node:http';
import { createAnthropic } from '@ai-sdk/anthropic';
import { getRequestListener } from '@hono/node-server';
import { Agent } from '@mastra/core/agent';
import { Mastra } from '@mastra/core/mastra';
import { createTool } from '@mastra/core/tools';
import { MastraServer } from '@mastra/hono';
import { Hono } from 'hono';
import { z } from 'zod';

/**
 * Mastra's agents behind `node:http`: POST / with the input, /tools for the agent with tools. A tool alone is called through
 * Mastra's own server: POST /api/tools/echo/execute.
 */
const [llmUrl] = process.argv.slice(2);
const model = createAnthropic({ baseURL: `${llmUrl}/v1`, apiKey: 'sk-ant-bench' })('claude-bench');
const plain = new Agent({ id: 'plain', name: 'plain', instructions: 'Answer with JSON.', model });
const echo = createTool({
  id: 'echo',
  description: 'Says its text back',
  inputSchema: z.object({ text: z.string() }),
  execute: async ({ text }) => ({ text }),
});
const withTools = new Agent({ id: 'tools', name: 'tools', instructions: 'Use the tool.', model, tools: { echo } });

const app = new Hono();
await new MastraServer({ app, mastra: new Mastra({ tools: { echo }, logger: false }) }).init();
const ofMastra = getRequestListener(app.fetch);

const server = createServer(async (request, response) => {
  if (request.url.startsWith('/api/')) return ofMastra(request, response);
  const { name } = JSON.parse(Buffer.concat(await request.toArray()).toString());
  const agent = request.url === '/tools' ? withTools : plain;
  const { text } = await agent.generate(`Greet ${name}.`, { maxSteps: 5 });
  response.writeHead(200, { 'content-type': 'application/json' }).end(text);
});
server.listen(0, '127.0.0.1', () => process.stdout.write(`${server.address().port}\n`));
