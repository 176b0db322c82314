import { once } from 'node:events';
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { Readable } from 'node:stream';
import { hasCode } from '#core/base/errors.ts';

/** Shorter than the idle time of providers, about a minute, so that we never reuse a connection that they close. */
const IDLE_MS = 30_000;
/** A `Response` must not have a body with these. */
const BODYLESS = [204, 205, 304];

/**
 * `fetch` for the AI SDK over `node:http`, which takes half the processor time of Node's own for a small answer.
 * Connections are kept alive; an aborted request destroys its own. Redirects are not followed, so that a key never goes to
 * another address.
 */
export function createHttpFetch(): typeof fetch {
  const secure = { request: httpsRequest, agent: new HttpsAgent({ keepAlive: true, timeout: IDLE_MS }) };
  const plain = { request: httpRequest, agent: new HttpAgent({ keepAlive: true, timeout: IDLE_MS }) };
  return async (input, init = {}) => {
    const url = new URL(input as string | URL);
    const { request, agent } = url.protocol === 'https:' ? secure : plain;
    const body = init.body as string;
    const message = await exchange(() =>
      request(url, {
        agent,
        method: init.method,
        headers: { ...Object.fromEntries(new Headers(init.headers)), 'content-length': Buffer.byteLength(body) },
        signal: init.signal ?? undefined,
      }).end(body),
    );
    return toResponse(message);
  };
}

async function exchange(send: () => ReturnType<typeof httpRequest>): Promise<IncomingMessage> {
  for (;;) {
    const request = send();
    try {
      return await new Promise<IncomingMessage>((resolve, reject) => {
        request.once('response', resolve);
        // Stays registered: later errors show in the message, and must not end the process here.
        request.on('error', reject);
      });
    } catch (error) {
      // The provider closed an idle connection at the moment of reuse, before it read the request.
      if (!(request.reusedSocket && (hasCode(error, 'ECONNRESET') || hasCode(error, 'EPIPE')))) throw error;
    }
  }
}

/** Not `toArray`, which costs as much as the rest of the answer. */
async function wholeOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  message.on('data', (chunk: Buffer) => chunks.push(chunk));
  await once(message, 'end');
  return Buffer.concat(chunks);
}

async function toResponse(message: IncomingMessage): Promise<Response> {
  const status = message.statusCode!;
  const headers = Object.entries(message.headers).filter((header): header is [string, string] => {
    return typeof header[1] === 'string';
  });
  const isStream = message.headers['content-type']?.startsWith('text/event-stream') === true;
  // Answers that are not streamed are read whole: a web stream costs as much as the request.
  const body = isStream ? (Readable.toWeb(message) as ReadableStream) : await wholeOf(message);
  return new Response(BODYLESS.includes(status) ? null : body, { status, headers });
}
