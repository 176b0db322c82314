import { once } from 'node:events';
import {
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type RequestOptions,
  request as startRequest,
} from 'node:http';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { hasCode, isPlatformError } from '#core/base/errors.ts';
import type { Clock } from '#core/ports/clock.ts';
import {
  MAX_OUTBOUND_BYTES,
  type Outbound,
  type OutboundAnswer,
  type OutboundExchange,
  type OutboundExchanges,
  OutboundFailure,
  type OutboundRequest,
  type OutboundResult,
} from '#core/ports/outbound.ts';
import { allowedAddresses, RefusedError, resolveAll } from './allowed-addresses.ts';
import { checkOutboundUrl, type OutboundUrl } from './outbound-url.ts';
import { isPublicAddress } from './public-address.ts';

const TRY_MS = 10_000;
const MAX_REDIRECTS = 3;
/** These repeat the POST at the new address; other redirects would turn it into a GET. */
const REPEATING_REDIRECTS = [307, 308];
const READING_REDIRECTS = [301, 302, 303, ...REPEATING_REDIRECTS];
const MAX_HEADER_BYTES = 16 * 1024;
/** Maximum number of addresses of a name to try. */
const MAX_ADDRESSES = 8;

export interface HttpOutboundOptions {
  readonly clock: Clock;
  /** `PLATFORM_OUTBOUND_HOSTS`. */
  readonly ownHosts: readonly string[];
  /** Resolves all addresses of a name. @default - the machine's resolver */
  readonly resolve?: (host: string) => Promise<readonly string[]>;
  /** @default - TCP */
  readonly connect?: (address: string, port: number) => Socket;
}

/**
 * {@link Outbound} and {@link OutboundExchanges} over Node's HTTP client, on both hosts. Each attempt resolves the name
 * once, connects to the address that it checked, and checks the peer of the connection before it sends anything.
 */
export class HttpOutbound implements Outbound, OutboundExchanges {
  readonly #clock: Clock;
  readonly #ownHosts: readonly string[];
  readonly #resolve: (host: string) => Promise<readonly string[]>;
  readonly #connect: (address: string, port: number) => Socket;

  constructor({ clock, ownHosts, resolve = resolveAll, connect = connectTo }: HttpOutboundOptions) {
    this.#clock = clock;
    this.#ownHosts = ownHosts;
    this.#resolve = resolve;
    this.#connect = connect;
  }

  async post(request: OutboundRequest): Promise<OutboundResult> {
    if (Buffer.byteLength(request.body) > MAX_OUTBOUND_BYTES) {
      throw new Error(`an outbound body has at most ${MAX_OUTBOUND_BYTES} bytes`);
    }
    try {
      const status = await this.#timed(async (signal) => {
        const followed = request.followsRedirects === false ? [] : REPEATING_REDIRECTS;
        const { statusCode = 0 } = await this.#follow(request.url, followed, post(request, signal), signal);
        return statusCode;
      });
      return { ok: true, status };
    } catch (error) {
      const { message, isFinal } = error as OutboundFailure;
      return { ok: false, problem: message, isFinal };
    }
  }

  /**
   * Returns the body of a GET as text, in one attempt of at most 10 seconds, under the same rules as a POST. Not part
   * of the port, because it reads only addresses that the operator configured.
   *
   * Throws an Error whose message is a sentence for the operator, and contains nothing that the other side sent.
   */
  get(url: string, maxBytes: number): Promise<string> {
    return this.#timed(async (signal) => {
      const answer = await this.#follow(url, READING_REDIRECTS, get(signal), signal);
      const chunks: Buffer[] = [];
      let bytes = 0;
      for await (const chunk of answer) {
        bytes += (chunk as Buffer).length;
        if (bytes > maxBytes) throw new OutboundFailure(`its answer is longer than ${maxBytes} bytes`, false);
        chunks.push(chunk as Buffer);
      }
      return Buffer.concat(chunks).toString();
    });
  }

  async exchange({ url, method, headers, body, signal }: OutboundExchange): Promise<OutboundAnswer> {
    try {
      const target = checkOutboundUrl(url, this.#ownHosts, 'address');
      const socket = await this.#open(target, signal);
      const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) };
      const answer = await exchange(target, socket, { method, headers: { ...headers, ...length }, signal }, body);
      return { status: answer.statusCode!, headers: headersOf(answer), body: bodyOf(answer, signal) };
    } catch (error) {
      throw failureOf(error, signal);
    }
  }

  /** Aborts `work` after {@link TRY_MS}. Throws only {@link OutboundFailure}. */
  async #timed<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const over = new AbortController();
    const tooLate = this.#clock.sleep(TRY_MS, over.signal).then(
      () => over.abort(new Error(`it did not answer within ${TRY_MS / 1000} seconds`)),
      () => {},
    );
    try {
      return await work(over.signal);
    } catch (error) {
      if (error instanceof OutboundFailure) throw error;
      throw new OutboundFailure(problemOf(error, over.signal), isRefusal(error));
    } finally {
      // Ends the timer and the connection, even if the receiver is still sending.
      over.abort(new Error('done'));
      await tooLate;
    }
  }

  /** Follows redirects to an answer with a status of 200 to 299, without reading its body. */
  async #follow(
    address: string,
    redirecting: readonly number[],
    send: Send,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    let text = address;
    for (let redirects = 0; ; redirects++) {
      const target = checkOutboundUrl(text, this.#ownHosts, redirects === 0 ? 'address' : 'redirect');
      const answer = await send(target, await this.#open(target, signal));
      const { statusCode: status = 0, headers } = answer;
      if (status >= 200 && status < 300) return answer;
      if (!redirecting.includes(status) || headers.location === undefined) {
        throw new OutboundFailure(`it answered ${status}`, false);
      }
      if (redirects === MAX_REDIRECTS) throw new OutboundFailure('it redirected too often', false);
      text = URL.parse(headers.location, target.url.href)?.href ?? headers.location;
    }
  }

  /** Opens a connection to an allowed peer. */
  async #open({ url, host, port, isOwn }: OutboundUrl, signal: AbortSignal): Promise<Socket> {
    const found = isIP(host) ? [host] : await abortable(this.#resolve(host), signal);
    const allowed = allowedAddresses({ host, isOwn }, found).slice(0, MAX_ADDRESSES);
    const socket = await this.#connectFirst(allowed, port, signal);
    if (!isOwn && !isPublicAddress(socket.remoteAddress ?? '')) {
      socket.destroy();
      throw new RefusedError(`${host} led to an address that is not of the public internet`);
    }
    if (url.protocol === 'http:') return socket;
    const secure = guarded(connectTls({ socket, host, ...(!isIP(host) && { servername: host }) }), signal);
    await once(secure, 'secureConnect', { signal });
    return secure;
  }

  async #connectFirst(addresses: readonly string[], port: number, signal: AbortSignal): Promise<Socket> {
    let problem: unknown;
    for (const address of addresses) {
      signal.throwIfAborted();
      const socket = guarded(this.#connect(address, port), signal);
      try {
        await once(socket, 'connect', { signal });
        return socket;
      } catch (error) {
        problem = error;
      }
    }
    throw problem;
  }
}

const isRefusal = (error: unknown): boolean => isPlatformError(error) || hasCode(error, 'OUTBOUND_REFUSED');

const connectTo = (host: string, port: number): Socket => connectTcp({ host, port });

/** Destroys the socket when the signal aborts, and handles late errors, which would crash the process. */
function guarded<S extends Socket>(socket: S, signal: AbortSignal): S {
  const end = () => socket.destroy();
  signal.addEventListener('abort', end, { once: true });
  socket.on('error', () => {});
  socket.on('close', () => signal.removeEventListener('abort', end));
  if (signal.aborted) end();
  return socket;
}

async function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const ended = Promise.withResolvers<never>();
  const end = () => ended.reject(signal.reason);
  signal.addEventListener('abort', end, { once: true });
  try {
    return await Promise.race([work, ended.promise]);
  } finally {
    signal.removeEventListener('abort', end);
  }
}

type Send = (target: OutboundUrl, socket: Socket) => Promise<IncomingMessage>;

const post =
  ({ headers, body }: OutboundRequest, signal: AbortSignal): Send =>
  (target, socket) => {
    const all = { 'content-type': 'application/json', ...headers, 'content-length': Buffer.byteLength(body) };
    return exchange(target, socket, { method: 'POST', headers: all, signal }, body);
  };

const get =
  (signal: AbortSignal): Send =>
  (target, socket) =>
    exchange(target, socket, { method: 'GET', headers: { accept: 'application/json' }, signal });

/** Returns the status and headers of the answer without reading the body. */
async function exchange(
  { url }: OutboundUrl,
  socket: Socket,
  { headers, ...options }: Pick<RequestOptions, 'method' | 'signal'> & { readonly headers: OutgoingHttpHeaders },
  body?: string,
): Promise<IncomingMessage> {
  const sent = startRequest({
    createConnection: () => socket,
    path: url.pathname + url.search,
    headers: { 'user-agent': 'agent-platform', ...headers, host: url.host, connection: 'close' },
    maxHeaderSize: MAX_HEADER_BYTES,
    ...options,
  });
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    sent.once('response', resolve);
    // Stays attached: an error after the answer must not crash the process.
    sent.on('error', reject);
  });
  sent.end(body);
  const message = await answered;
  message.on('error', () => {});
  return message;
}

const headersOf = ({ headers }: IncomingMessage): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value].flat().join(', ')]));

async function* bodyOf(answer: IncomingMessage, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  try {
    yield* answer;
  } catch (error) {
    throw failureOf(error, signal);
  }
}

/** Converts an error to the one that `exchange` throws. */
function failureOf(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  return new OutboundFailure(problemOf(error, signal), isRefusal(error));
}

/**
 * Returns our own text, or the code of Node's error, whose text may reveal more than the address that the user gave.
 */
function problemOf(error: unknown, signal: AbortSignal): string {
  if (signal.aborted) return (signal.reason as Error).message;
  if (isRefusal(error)) return (error as Error).message.replace(/\.$/, '');
  const { code } = error as { code?: unknown };
  return `it cannot be reached${typeof code === 'string' ? ` (${code})` : ''}`;
}
