import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { type IncomingMessage, request as startRequest } from 'node:http';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { hasCode, isPlatformError } from '#core/base/errors.ts';
import type { Clock } from '#core/ports/clock.ts';
import { MAX_OUTBOUND_BYTES, type Outbound, type OutboundRequest, type OutboundResult } from '#core/ports/outbound.ts';
import { checkOutboundUrl, type OutboundUrl } from './outbound-url.ts';
import { isPublicAddress } from './public-address.ts';

const TRY_MS = 10_000;
const MAX_REDIRECTS = 3;
/** They repeat the POST elsewhere; other redirects would turn it into a GET. */
const REPEATING_REDIRECTS = [307, 308];
const MAX_HEADER_BYTES = 16 * 1024;
/** Further addresses of a name are not tried. */
const MAX_ADDRESSES = 8;

export interface HttpOutboundOptions {
  readonly clock: Clock;
  /** `PLATFORM_OUTBOUND_HOSTS`. */
  readonly ownHosts: readonly string[];
  /** All addresses of a name. @default - the machine's resolver */
  readonly resolve?: (host: string) => Promise<readonly string[]>;
  /** @default - TCP */
  readonly connect?: (address: string, port: number) => Socket;
}

/**
 * {@link Outbound} over Node's own HTTP, on both hosts. Each try resolves the name once, connects to the address that it
 * checked, and checks the peer of the connection before it sends anything.
 */
export class HttpOutbound implements Outbound {
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
    const over = new AbortController();
    const tooLate = this.#clock.sleep(TRY_MS, over.signal).then(
      () => over.abort(new Error(`it did not answer within ${TRY_MS / 1000} seconds`)),
      () => {},
    );
    try {
      return await this.#follow(request, over.signal);
    } catch (error) {
      return { ok: false, problem: problemOf(error, over.signal), isFinal: isRefusal(error) };
    } finally {
      // Ends the timer and the connection, also while the receiver is still sending.
      over.abort(new Error('done'));
      await tooLate;
    }
  }

  async #follow(request: OutboundRequest, signal: AbortSignal): Promise<OutboundResult> {
    let text = request.url;
    for (let redirects = 0; ; redirects++) {
      const target = checkOutboundUrl(text, this.#ownHosts, redirects === 0 ? 'address' : 'redirect');
      const { statusCode: status = 0, headers } = await send(target, await this.#open(target, signal), request, signal);
      if (status >= 200 && status < 300) return { ok: true, status };
      if (!REPEATING_REDIRECTS.includes(status) || headers.location === undefined) {
        return { ok: false, problem: `it answered ${status}`, isFinal: false };
      }
      if (redirects === MAX_REDIRECTS) return { ok: false, problem: 'it redirected too often', isFinal: false };
      text = URL.parse(headers.location, target.url.href)?.href ?? headers.location;
    }
  }

  /** Opens a connection to an allowed peer. */
  async #open({ url, host, port, isOwn }: OutboundUrl, signal: AbortSignal): Promise<Socket> {
    const found = isIP(host) ? [host] : await abortable(this.#resolve(host), signal);
    const allowed = found.filter((address) => isOwn || isPublicAddress(address)).slice(0, MAX_ADDRESSES);
    if (allowed.length === 0) throw new RefusedError(`${host} is not an address of the public internet`);
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

/** The address is forbidden; a retry would be refused, too. */
class RefusedError extends Error {
  readonly code = 'OUTBOUND_REFUSED';
}

const isRefusal = (error: unknown): boolean => isPlatformError(error) || hasCode(error, 'OUTBOUND_REFUSED');

async function resolveAll(host: string): Promise<string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address);
}

const connectTo = (host: string, port: number): Socket => connectTcp({ host, port });

/** Destroys the socket when the signal aborts, and handles late errors, which would end the process. */
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

/** Returns the head of the answer; the body is not read. */
async function send(
  { url }: OutboundUrl,
  socket: Socket,
  { headers, body }: OutboundRequest,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const sent = startRequest({
    createConnection: () => socket,
    method: 'POST',
    path: url.pathname + url.search,
    headers: {
      'user-agent': 'agent-platform',
      ...headers,
      host: url.host,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      connection: 'close',
    },
    maxHeaderSize: MAX_HEADER_BYTES,
    signal,
  });
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    sent.once('response', resolve);
    // Stays attached: an error after the answer must not end the process.
    sent.on('error', reject);
  });
  sent.end(body);
  const message = await answered;
  message.on('error', () => {});
  return message;
}

/** Our own text, or the code of Node's error, whose text may show more than the address that the user gave. */
function problemOf(error: unknown, signal: AbortSignal): string {
  if (signal.aborted) return (signal.reason as Error).message;
  if (isRefusal(error)) return (error as Error).message.replace(/\.$/, '');
  const { code } = error as { code?: unknown };
  return `it cannot be reached${typeof code === 'string' ? ` (${code})` : ''}`;
}
