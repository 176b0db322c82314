import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { PlatformError } from '#core/base/errors.ts';
import type { HttpRequest, HttpResponse, RequestHeaders } from '#core/http/message.ts';

/** Slightly more than the largest body that a route accepts. */
const MAX_DRAINED_BYTES = 32 * 1024 * 1024;
const DRAIN_MS = 2_000;
const SILENCE_MS = 60_000;
const BODY_MS = 300_000;
/** How long the head of a streamed response is delayed, in order to be sent with the first bytes. */
const STATUS_MS = 5;

export interface AdapterOptions {
  /** Called with errors that could not be sent to the client: of `answer`, or of a response body in progress. */
  readonly onError: (error: unknown) => void;
  /** Idle timeout while a request body is awaited, in milliseconds. @default 60000 */
  readonly silenceMs?: number;
  /**
   * Timeout for a request body, in milliseconds, not counting time in which its reader does not read. @default 300000
   */
  readonly bodyMs?: number;
}

type Patience = Required<Pick<AdapterOptions, 'silenceMs' | 'bodyMs'>>;

/**
 * Handles requests of Node's HTTP server, which provides keep-alive, pipelining, HEAD and `Expect: 100-continue`.
 * Custom code, because adapters to the web's `Request` and `Response` cost more than most of our routes, and the first
 * `Request` of a process takes 18 ms (measured in Lambda).
 */
export function requestListener(
  answer: (request: HttpRequest, incoming: IncomingMessage) => Promise<HttpResponse>,
  { onError, silenceMs = SILENCE_MS, bodyMs = BODY_MS }: AdapterOptions,
): RequestListener {
  const respond = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { status, headers, body } = await answer(new NodeRequest(incoming, { silenceMs, bodyMs }), incoming);
    if (!incoming.complete && !(await drain(incoming))) response.setHeader('connection', 'close');
    await endOfTurn();
    if (body === null) response.writeHead(status, headers).end();
    else if (typeof body === 'string')
      response.writeHead(status, withLength(headers, Buffer.byteLength(body))).end(body);
    else if (body instanceof Uint8Array) response.writeHead(status, withLength(headers, body.length)).end(body);
    else await pour(body, response.writeHead(status, headers), incoming);
  };
  return (incoming, response) => {
    respond(incoming, response).catch((error) => {
      onError(error);
      // Tells the client that the response is incomplete.
      if (response.headersSent) response.destroy();
      else response.writeHead(500).end();
    });
  };
}

const withLength = (headers: Readonly<Record<string, string>>, length: number) => ({
  ...headers,
  'content-length': length,
});

/** A request of Node's HTTP server. */
class NodeRequest implements HttpRequest, RequestHeaders {
  readonly #incoming: IncomingMessage;
  readonly #patience: Patience;

  constructor(incoming: IncomingMessage, patience: Patience) {
    this.#incoming = incoming;
    this.#patience = patience;
  }

  get method(): string {
    return this.#incoming.method!;
  }

  get url(): string {
    return this.#incoming.url!;
  }

  get headers(): RequestHeaders {
    return this;
  }

  get(name: string): string | null {
    const value = this.#incoming.headers[name.toLowerCase()];
    return typeof value === 'string' ? value : null;
  }

  has(name: string): boolean {
    return this.get(name) !== null;
  }

  get body(): AsyncIterable<Uint8Array> | null {
    const { 'content-length': length = '0', 'transfer-encoding': coding } = this.#incoming.headers;
    return coding === undefined && Number(length) === 0 ? null : this.#chunks();
  }

  async bytes(): Promise<Uint8Array> {
    const { body } = this;
    const incoming = this.#incoming;
    if (body === null) return NOTHING;
    if (incoming.complete) return this.#rest();
    // The body's last bytes arrive before its end event.
    if (incoming.readableLength === Number(incoming.headers['content-length'])) {
      const whole = this.#rest();
      incoming.resume();
      return whole;
    }
    const chunks = await Array.fromAsync(body);
    return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
  }

  /**
   * Yields the body. Throws INVALID_INPUT if the client disconnects, is idle or too slow. If a reader stops early, the
   * connection stays open so that the client gets its response.
   */
  async *#chunks(): AsyncGenerator<Uint8Array> {
    const incoming = this.#incoming;
    const chunks = incoming.iterator({ destroyOnReturn: false });
    const { silenceMs, bodyMs } = this.#patience;
    let left = bodyMs;
    try {
      while (!incoming.complete) {
        const since = performance.now();
        const patience = setTimeout(() => incoming.destroy(), Math.min(silenceMs, left));
        const { done, value } = await chunks.next().finally(() => clearTimeout(patience));
        left -= performance.now() - since;
        if (done) return;
        yield value;
      }
    } catch {
      if (!incoming.complete) throw cutOff();
    } finally {
      await chunks.return?.();
    }
    yield this.#rest();
  }

  /** Returns the buffered rest of a body that has arrived, even if the client has disconnected since. */
  #rest(): Uint8Array {
    return this.#incoming.read() ?? NOTHING;
  }
}

const NOTHING = new Uint8Array();

const cutOff = (): PlatformError =>
  new PlatformError('INVALID_INPUT', 'The request body is incomplete: the client stopped sending before the end.');

/** Writes a stream as fast as the client reads it. A client that disconnects ends the stream. */
async function pour(
  body: AsyncIterable<Uint8Array>,
  response: ServerResponse,
  incoming: IncomingMessage,
): Promise<void> {
  const chunks = body[Symbol.asyncIterator]();
  let isGone = response.destroyed;
  let resume = () => {};
  const leave = () => {
    isGone = true;
    resume();
    // The client has disconnected, so errors of the stream cannot be reported.
    chunks.return?.().catch(() => {});
  };
  response.on('drain', () => resume()).once('close', leave);
  // The only event for a response that is queued behind others on its connection.
  incoming.once('error', leave);
  // Clients act on the status before the first event arrives.
  const status = setTimeout(() => response.flushHeaders(), STATUS_MS);
  try {
    for await (const chunk of { [Symbol.asyncIterator]: () => chunks }) {
      clearTimeout(status);
      if (isGone) break;
      if (!response.write(chunk)) {
        await new Promise<void>((resolve) => {
          resume = resolve;
          if (isGone) resolve();
        });
      }
    }
  } catch (error) {
    // Flush what was written before the error.
    response.flushHeaders();
    await endOfTurn();
    throw error;
  } finally {
    clearTimeout(status);
  }
  response.end();
}

/**
 * Reads and discards the rest of a request body that the handler did not read, such as one that is too large. Closing a
 * connection with unread bytes loses the response, and keeping it open prevents reuse. Returns false if the rest is too
 * long or too slow.
 */
async function drain(incoming: IncomingMessage): Promise<boolean> {
  // The stream is closed already, so neither event below would fire.
  if (incoming.destroyed) return incoming.complete;
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), DRAIN_MS);
  let bytes = 0;
  const count = (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > MAX_DRAINED_BYTES) resolve(false);
  };
  incoming.on('data', count).once('close', () => resolve(incoming.complete));
  incoming.once('end', () => resolve(true));
  incoming.resume();
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    incoming.off('data', count);
  }
}

/**
 * Resolves at the end of this turn of the event loop. Responses that wait for it are sent together and wake the
 * receiver once: a third more requests per second (`npm run bench`, first row).
 */
function endOfTurn(): Promise<void> {
  turn ??= new Promise((resolve) =>
    setImmediate(() => {
      turn = undefined;
      resolve();
    }),
  );
  return turn;
}
let turn: Promise<void> | undefined;
