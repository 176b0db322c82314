import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { urlToHttpOptions } from 'node:url';
import type { LlmRequest } from '#core/ports/llm.ts';
import type { AddressGuard } from './address-guard.ts';
import { throttleConnects } from './throttled-agent.ts';

/** Shorter than the idle time of providers, about a minute, so that we never reuse a connection that they close. */
const IDLE_MS = 30_000;
/** Connections that are kept for the next burst of requests. */
const MAX_FREE = 1024;
/** Far above the longest answer, with its thoughts and events. */
export const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
/** Node sets three bytes aside for each character of a text that it sends: too much for the files of a call. */
const LONG_BODY = 1_000_000;

/** A request before it is sent: a POST. */
export interface OutgoingRequest {
  readonly url: URL;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body: string;
}

/** What one request needs of its way. */
export interface SendOptions extends Pick<LlmRequest, 'onSign'> {
  /** Changes the request: signs it, or renames its model. */
  readonly prepare?: (request: OutgoingRequest) => OutgoingRequest | Promise<OutgoingRequest>;
}

/**
 * Sends one request and resolves with the beginning of its answer, which fails with the code LONG_ANSWER beyond
 * {@link MAX_ANSWER_BYTES}. The signal ends the connection, also later.
 */
export type Send = (request: OutgoingRequest, signal: AbortSignal | undefined) => Promise<IncomingMessage>;

/**
 * Requests to providers over `node:http`, which takes half the processor time of Node's own `fetch` for a small answer.
 * Connections are kept alive; an aborted request destroys its own. Redirects are not followed, so that a key never goes to
 * another address. Each request is sent once, also when a kept connection breaks: the provider may have read it, and
 * charge for it.
 *
 * The result makes the way of one request, which tells `onSign` how it gets on.
 *
 * @param guard Rules for addresses that users name. Addresses of the operator need none.
 */
export function createSender(guard?: AddressGuard): (options: SendOptions) => Send {
  const options = {
    keepAlive: true,
    timeout: IDLE_MS,
    maxFreeSockets: MAX_FREE,
    ...(guard && { lookup: guard.lookup }),
  };
  const secure = { request: httpsRequest, agent: throttleConnects(new HttpsAgent(options)) };
  const plain = { request: httpRequest, agent: throttleConnects(new HttpAgent(options)) };
  return ({ onSign, prepare }) =>
    async (asked, signal) => {
      const { url, headers, body } = prepare === undefined ? asked : await prepare(asked);
      guard?.check(url);
      const { request, agent } = url.protocol === 'https:' ? secure : plain;
      const sent = request({
        ...addressOf(url),
        agent,
        method: 'POST',
        headers: { ...headers, 'content-length': Buffer.byteLength(body) },
      });
      const onAbort = (): void => void sent.destroy(new AbortedError());
      if (signal?.aborted) onAbort();
      signal?.addEventListener('abort', onAbort);
      sent.once('close', () => signal?.removeEventListener('abort', onAbort));
      sent.once('finish', () => onSign?.('sent'));
      const message = await new Promise<IncomingMessage>((resolve, reject) => {
        sent.once('response', resolve);
        // Stays registered: later errors show in the message, and must not end the process here.
        sent.on('error', (error) => {
          // What closed this connection has closed the others: the next request shall not meet one of them.
          if (sent.reusedSocket && !signal?.aborted) closeIdle(agent);
          reject(error);
        });
        sent.end(body.length > LONG_BODY ? Buffer.from(body) : body);
      });
      onSign?.('received');
      watchAnswer(message, onSign);
      return message;
    };
}

/** The same address is asked again and again. */
const addresses = new WeakMap<URL, ReturnType<typeof urlToHttpOptions>>();

function addressOf(url: URL): ReturnType<typeof urlToHttpOptions> {
  let known = addresses.get(url);
  if (known === undefined) {
    known = urlToHttpOptions(url);
    addresses.set(url, known);
  }
  return known;
}

/** As that of aborted requests of `fetch`. */
class AbortedError extends Error {
  override readonly name = 'AbortError';
}

function closeIdle({ freeSockets }: HttpAgent): void {
  for (const sockets of Object.values(freeSockets)) for (const socket of sockets ?? []) socket.destroy();
}

function watchAnswer(message: IncomingMessage, onSign: LlmRequest['onSign']): void {
  let bytes = 0;
  message.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) message.destroy(new LongAnswerError());
    onSign?.('received');
  });
  // Until a reader has come.
  message.pause();
}

/** The answer has more than {@link MAX_ANSWER_BYTES}. Test the code. */
class LongAnswerError extends Error {
  readonly code = 'LONG_ANSWER';
}

/** Not `toArray`, which costs as much as the rest of the answer. */
export function wholeOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  return new Promise((resolve, reject) => {
    message.on('data', (chunk: Buffer) => chunks.push(chunk));
    message.once('end', () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)));
    message.once('error', reject);
    message.resume();
  });
}

/** The headers of an answer that have one value. */
export const headersOf = (message: IncomingMessage): Record<string, string> =>
  Object.fromEntries(
    Object.entries(message.headers).filter((header): header is [string, string] => typeof header[1] === 'string'),
  );
