import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

/** The members of a request for a chat completion that decide what the demo's model answers. */
interface Asked {
  readonly model: string;
  readonly stream?: boolean;
  readonly messages: readonly { readonly role: string; readonly content?: unknown }[];
}

interface ToolCall {
  readonly name: string;
  readonly input: object;
}

export interface DemoModel {
  /** For `PLATFORM_OLLAMA_URL`. */
  readonly url: string;
  close(): Promise<void>;
}

const ORDER = 'A-17';
const PAID = 250;

/**
 * Starts a stand-in for a language model on a free loopback port: it speaks OpenAI's chat completions and plays one part,
 * the model of examples/refund-desk with its sample input. So the demo shows a loop without the key of a provider.
 */
export async function startDemoModel(): Promise<DemoModel> {
  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Asks for the refund first, and then submits what became of it. */
function nextCall({ messages }: Asked): ToolCall {
  const result = messages.findLast(({ role }) => role === 'tool');
  if (result === undefined) {
    const reason = 'The oak table arrived with a broken leg.';
    return { name: 'refund', input: { order: ORDER, amount: PAID, reason } };
  }
  const said = typeof result.content === 'string' ? result.content : JSON.stringify(result.content);
  const refunded = Number(/Paid ([\d.]+) USD/.exec(said)?.[1] ?? 0);
  const outcome =
    refunded > 0 ? `We have paid ${refunded} dollars back to you.` : 'Somebody will look at it and write to you.';
  const reply = `Dear Marta,\n\nwe are sorry that your oak table arrived with a broken leg. ${outcome}\n\nKind regards`;
  return { name: 'submit_result', input: { order: ORDER, refunded, reply } };
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const asked = (await json(request)) as Asked;
  const { name, input } = nextCall(asked);
  const id = `call_${asked.messages.length}`;
  const call = { index: 0, id, type: 'function', function: { name, arguments: JSON.stringify(input) } };
  const message = { role: 'assistant', content: null, tool_calls: [call] };
  const usage = { prompt_tokens: 400, completion_tokens: 40, total_tokens: 440 };
  const about = { id: `chatcmpl-${id}`, created: 0, model: asked.model };
  if (!asked.stream) {
    const choices = [{ index: 0, message, finish_reason: 'tool_calls' }];
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ ...about, object: 'chat.completion', choices, usage }));
    return;
  }
  const chunks = [
    { choices: [{ index: 0, delta: message, finish_reason: null }] },
    { choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] },
    { choices: [], usage },
  ];
  response.setHeader('content-type', 'text/event-stream');
  for (const chunk of chunks) {
    response.write(`data: ${JSON.stringify({ ...about, object: 'chat.completion.chunk', ...chunk })}\n\n`);
  }
  response.end('data: [DONE]\n\n');
}
