import { once } from 'node:events';
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { Readable } from 'node:stream';
import type { LlmRequest } from '#core/ports/llm.ts';
import type { AddressGuard } from './address-guard.ts';

/** Shorter than the idle time of providers, about a minute, so that we never reuse a connection that they close. */
const IDLE_MS = 30_000;
/** Far above the longest answer, with its thoughts and events. */
export const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
/** Node sets three bytes aside for each character of a text that it sends: too much for the files of a call. */
const LONG_BODY = 1_000_000;
/** A `Response` must not have a body with these. */
const BODYLESS = [204, 205, 304];

/** A request before it is sent. */
export interface OutgoingRequest {
  readonly url: URL;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body: string;
}

/** What one request needs of its `fetch`. */
export interface FetchOptions extends Pick<LlmRequest, 'onSign'> {
  /** Changes the request: signs it, or renames its model. */
  readonly prepare?: (request: OutgoingRequest) => OutgoingRequest | Promise<OutgoingRequest>;
}

/**
 * `fetch` for the AI SDK over `node:http`, which takes half the processor time of Node's own for a small answer.
 * Connections are kept alive; an aborted request destroys its own. Redirects are not followed, so that a key never goes to
 * another address. Each request is sent once, also when a kept connection breaks: the provider may have read it, and
 * charge for it.
 *
 * The result makes a `fetch` for one request, which tells `onSign` how it gets on.
 *
 * @param guard Rules for addresses that users name. Addresses of the operator need none.
 */
export function createHttpFetch(guard?: AddressGuard): (options: FetchOptions) => typeof fetch {
  const options = { keepAlive: true, timeout: IDLE_MS, ...(guard && { lookup: guard.lookup }) };
  const secure = { request: httpsRequest, agent: new HttpsAgent(options) };
  const plain = { request: httpRequest, agent: new HttpAgent(options) };
  return ({ onSign, prepare }) =>
    async (input, init = {}) => {
      const asked = {
        url: new URL(input as string | URL),
        headers: Object.fromEntries(new Headers(init.headers)),
        body: init.body as string,
      };
      const { url, headers, body } = prepare === undefined ? asked : await prepare(asked);
      guard?.check(url);
      const { request, agent } = url.protocol === 'https:' ? secure : plain;
      const sent = request(url, {
        agent,
        method: init.method,
        headers: { ...headers, 'content-length': Buffer.byteLength(body) },
        signal: init.signal ?? undefined,
      });
      sent.once('finish', () => onSign?.('sent'));
      const message = await new Promise<IncomingMessage>((resolve, reject) => {
        sent.once('response', resolve);
        // Stays registered: later errors show in the message, and must not end the process here.
        sent.on('error', (error) => {
          // What closed this connection has closed the others: the next request shall not meet one of them.
          if (sent.reusedSocket) closeIdle(agent);
          reject(error);
        });
        sent.end(body.length > LONG_BODY ? Buffer.from(body) : body);
      });
      onSign?.('received');
      return toResponse(message, onSign);
    };
}

function closeIdle({ freeSockets }: HttpAgent): void {
  for (const sockets of Object.values(freeSockets)) for (const socket of sockets ?? []) socket.destroy();
}

function limitSize(message: IncomingMessage): void {
  let bytes = 0;
  const count = (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) message.destroy(new LongAnswerError());
  };
  message.on('data', count);
}

/** The answer has more than {@link MAX_ANSWER_BYTES}. Test the code. */
class LongAnswerError extends Error {
  readonly code = 'LONG_ANSWER';
}

/** Not `toArray`, which costs as much as the rest of the answer. */
async function wholeOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  message.on('data', (chunk: Buffer) => chunks.push(chunk));
  await once(message, 'end');
  return Buffer.concat(chunks);
}

async function toResponse(message: IncomingMessage, onSign: LlmRequest['onSign']): Promise<Response> {
  const status = message.statusCode!;
  const headers = Object.entries(message.headers).filter((header): header is [string, string] => {
    return typeof header[1] === 'string';
  });
  limitSize(message);
  const isStream = message.headers['content-type']?.startsWith('text/event-stream') === true;
  // Answers that are not streamed are read whole: a web stream costs as much as the request.
  const body = isStream ? (Readable.toWeb(message) as ReadableStream) : wholeOf(message);
  if (onSign !== undefined) message.on('data', () => onSign('received'));
  return new Response(BODYLESS.includes(status) ? null : await body, { status, headers });
}
