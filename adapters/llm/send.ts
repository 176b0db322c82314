import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { pipeline, type Readable, type Transform } from 'node:stream';
import { urlToHttpOptions } from 'node:url';
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib';
import type { LlmRequest } from '#core/ports/llm.ts';
import type { AddressGuard } from './address-guard.ts';
import { throttleConnects } from './throttled-agent.ts';
import { wellFormedBody } from './well-formed.ts';

/**
 * Shorter than the idle timeout of providers, about a minute, so that we never reuse a connection that they are
 * closing.
 */
const IDLE_MS = 30_000;
/** Maximum number of idle connections kept for the next burst of requests. */
const MAX_FREE = 1024;
/** Maximum size of an answer, far above the longest one including its thinking and events. */
export const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
/**
 * Length from which a body is sent as bytes: Node reserves three bytes per character of a text, and reads it twice more.
 * A shorter text is sent together with its head.
 */
const LONG_BODY = 16_384;

/** A POST request before it is sent. */
export interface OutgoingRequest {
  readonly url: URL;
  /** Header names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body: string;
}

/** Options for sending one request. */
export interface SendOptions extends Pick<LlmRequest, 'onSign' | 'traceHeaders'> {
  /** Modifies the request: signs it, or replaces its model id. */
  readonly prepare?: (request: OutgoingRequest) => OutgoingRequest | Promise<OutgoingRequest>;
}

/** Head of a response, and its body as a stream. */
export type ProviderResponse = Readable & Pick<IncomingMessage, 'statusCode' | 'headers'>;

/**
 * Sends one request and resolves with the head of its response, whose body fails with the code LONG_ANSWER beyond
 * {@link MAX_ANSWER_BYTES}. The signal closes the connection, also during the body.
 */
export type Send = (request: OutgoingRequest, signal: AbortSignal | undefined) => Promise<ProviderResponse>;

/**
 * Sends requests to providers over `node:http`, which uses half the processor time of Node's own `fetch` for a small
 * response. Connections are kept alive; an aborted request destroys its own. Redirects are not followed, so that a key
 * never reaches another address. Each request is sent only once, even if a reused connection breaks: the provider may
 * have read it, and charge for it.
 *
 * Returns a function that creates the sender of one request, which reports its progress to `onSign`.
 *
 * @param guard Rules for addresses that users configure. Addresses of the operator need none.
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
  return ({ onSign, traceHeaders, prepare }) =>
    async (asked, signal) => {
      const sound = { ...asked, body: wellFormedBody(asked.body) };
      const { url, headers, body: text } = prepare === undefined ? sound : await prepare(sound);
      const body = text.length > LONG_BODY ? Buffer.from(text) : text;
      guard?.check(url);
      const { request, agent } = url.protocol === 'https:' ? secure : plain;
      const sent = request({
        ...addressOf(url),
        agent,
        method: 'POST',
        headers: { ...headers, ...traceHeaders, 'content-length': Buffer.byteLength(body) },
      });
      const onAbort = (): void => void sent.destroy(new AbortedError());
      if (signal?.aborted) onAbort();
      signal?.addEventListener('abort', onAbort);
      sent.once('close', () => signal?.removeEventListener('abort', onAbort));
      sent.once('finish', () => onSign?.('sent'));
      const message = await new Promise<IncomingMessage>((resolve, reject) => {
        sent.once('response', resolve);
        // Stays registered: later errors are reported by the message, and must not end the process here.
        sent.on('error', (error) => {
          // If one idle connection was closed, the others probably are too: the next request must not use one of them.
          if (sent.reusedSocket && !signal?.aborted) closeIdle(agent);
          reject(error);
        });
        sent.end(body);
      });
      onSign?.('received');
      const decoded = decodedAnswer(message);
      watchAnswer(decoded, onSign);
      return decoded;
    };
}

type Address = Pick<ReturnType<typeof urlToHttpOptions>, 'protocol' | 'hostname' | 'port' | 'path' | 'auth'>;
/** Caches parsed addresses, because the same ones are used repeatedly. */
const addresses = new WeakMap<URL, Address>();

/** Returns only what a request needs: Node copies these options several times. */
function addressOf(url: URL): Address {
  let known = addresses.get(url);
  if (known === undefined) {
    const { protocol, hostname, port, path, auth } = urlToHttpOptions(url);
    known = { protocol, hostname, path, ...(port !== undefined && { port }), ...(auth !== undefined && { auth }) };
    addresses.set(url, known);
  }
  return known;
}

/** Same name as the error of aborted `fetch` requests. */
class AbortedError extends Error {
  override readonly name = 'AbortError';
}

function closeIdle({ freeSockets }: HttpAgent): void {
  for (const sockets of Object.values(freeSockets)) for (const socket of sockets ?? []) socket.destroy();
}

/** Decoders of bodies that some gateways compress without being asked. */
const DECODERS: { readonly [coding: string]: () => Transform } = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
};

function decodedAnswer(message: IncomingMessage): ProviderResponse {
  const { 'content-encoding': coding, ...headers } = message.headers;
  const decoder = DECODERS[coding ?? ''];
  if (decoder === undefined) return message;
  // The reader gets the error of either stream from the decoder.
  const decoded = pipeline(message, decoder(), () => {});
  return Object.assign(decoded, { statusCode: message.statusCode, headers });
}

function watchAnswer(message: ProviderResponse, onSign: LlmRequest['onSign']): void {
  let bytes = 0;
  message.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) message.destroy(new LongAnswerError());
    onSign?.('received');
  });
  // Paused until it has a reader.
  message.pause();
}

/** The response is larger than {@link MAX_ANSWER_BYTES}. Test the code. */
class LongAnswerError extends Error {
  readonly code = 'LONG_ANSWER';
}

/** Avoids `toArray`, which costs as much as the rest of the response. */
export function wholeOf(message: ProviderResponse): Promise<Buffer> {
  const chunks: Buffer[] = [];
  return new Promise((resolve, reject) => {
    message.on('data', (chunk: Buffer) => chunks.push(chunk));
    message.once('end', () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)));
    message.once('error', reject);
    message.resume();
  });
}

/** Returns the single-valued headers of a response. */
export const headersOf = (message: ProviderResponse): Record<string, string> =>
  Object.fromEntries(
    Object.entries(message.headers).filter((header): header is [string, string] => typeof header[1] === 'string'),
  );
