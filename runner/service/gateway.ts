import { type ClientRequest, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type Duplex, pipeline } from 'node:stream';
import { hasCode } from '#core/base/errors.ts';
import { type App, AppAgent } from './app-agent.ts';
import { answerWith, endWith, GatewayError, headOf } from './gateway-error.ts';
import { mayHaveBody, onceBodyBegins, Places } from './places.ts';

/** Timeout from the end of a request to the first byte of its response. AWS load balancers wait as long. */
const FIRST_BYTE_MS = 60_000;
/** Idle timeout without a byte in either direction. */
const SILENT_MS = 10 * 60_000;

/** RFC 9110, section 7.6.1. `te` and `trailer` describe the body, which is forwarded unchanged. */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization'],
  ...['transfer-encoding', 'upgrade'],
]);
/** Headers that `Connection` cannot remove: without them the app would see another request than the gateway. */
const END_TO_END: ReadonlySet<string> = new Set(['content-length', 'host']);
const FORWARDED: ReadonlySet<string> = new Set([
  ...['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-prefix', 'x-forwarded-proto'],
]);

/** Idempotent methods, whose requests an app may get twice (RFC 9110, section 9.2.2). */
const REPEATABLE: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE']);

/** Facts about a request that only the host knows. */
export interface Via {
  /** Addresses for `X-Forwarded-For`, the client's first. */
  readonly addresses: string;
  /** Address that the request counts against: the client's, as far as the host can verify it. */
  readonly client: string;
  readonly proto: 'http' | 'https';
  /** Path prefix that is removed before the app sees the path, for `X-Forwarded-Prefix`. */
  readonly prefix?: string;
  /** Headers that pass in neither direction, in lower case. */
  readonly withheld?: ReadonlySet<string>;
  /** Additional response headers: alternating names and values. */
  readonly answerHeaders?: readonly string[];
}

/**
 * Forwards requests of any kind to the app of one instance (`docs/interface/service-instances.md#gateway`): streams
 * bodies of any length in both directions, with trailers, event streams and upgraded connections. A client gets 503
 * while the app does not listen, 502 if it ends before it has responded, 504 if it does not respond. Custom code,
 * because the proxy libraries for Node drop trailers, forward hop-by-hop headers, and upgrade only to WebSocket.
 */
export class ServiceGateway {
  readonly #agent: AppAgent;
  readonly #places = new Places();
  readonly #upgraded = new Set<Duplex>();
  #underWay = 0;
  #onIdle = () => {};

  constructor(app: App) {
    this.#agent = new AppAgent(app);
  }

  request(incoming: IncomingMessage, response: ServerResponse, via: Via): void {
    this.#underWay += 1;
    response.once('close', () => {
      this.#underWay -= 1;
      if (this.#underWay === 0) this.#onIdle();
    });
    onceBodyBegins(incoming, response, () => this.#carry(incoming, response, via));
  }

  #carry(incoming: IncomingMessage, response: ServerResponse, via: Via): void {
    const isChunked = incoming.headers['transfer-encoding'] !== undefined;
    const hasBody = mayHaveBody(incoming);
    let outgoing: ClientRequest;
    const waitsForBody = () => hasBody && !incoming.complete && !outgoing.writableNeedDrain;
    let leave: () => void;
    try {
      leave = this.#places.take(via.client, {
        socket: incoming.socket,
        waitsForClient() {
          // While both directions are streaming, the app decides how long it waits for more.
          const isAnswering = response.headersSent && !response.writableEnded;
          return (waitsForBody() && !isAnswering) || response.writableNeedDrain;
        },
        end(error) {
          answerWith(response, error);
          outgoing.destroy();
          // An app may respond before it has read the whole body.
          if (response.writableEnded && response.socket === null) incoming.destroy();
        },
      });
    } catch (error) {
      answerWith(response, error);
      return;
    }
    const send = (mayRepeat: boolean) => {
      outgoing = this.#begin(incoming, via, isChunked ? ['transfer-encoding', 'chunked'] : []);
      const wait = waitForAnswer(outgoing, waitsForBody);
      outgoing.on('response', (answer) => passOn(answer, response, via));
      // The client did not request an upgrade.
      outgoing.on('upgrade', (_, socket) => {
        socket.destroy();
        answerWith(response, undefined);
      });
      let isRepeated = false;
      outgoing.on('error', (error) => {
        // The app closed an idle connection at the moment of its reuse: most likely it has not seen the request.
        const isStale = outgoing.reusedSocket && hasCode(error, 'ECONNRESET') && !response.headersSent;
        isRepeated = isStale && mayRepeat && !response.destroyed;
        if (isRepeated) send(false);
        else answerWith(response, error);
      });
      outgoing.once('close', () => {
        if (!isRepeated) leave();
      });
      response.once('close', () => {
        if (!response.writableFinished) outgoing.destroy();
      });
      if (!hasBody) return void outgoing.end();
      incoming.on('data', wait.restart);
      incoming.once('end', () => {
        if (incoming.rawTrailers.length > 0) outgoing.addTrailers(pairsOf(incoming.rawTrailers));
      });
      incoming.once('close', () => {
        if (!incoming.complete) outgoing.destroy();
      });
      incoming.pipe(outgoing);
    };
    send(!hasBody && REPEATABLE.has(incoming.method!));
  }

  /** Forwards an upgrade request, such as for a WebSocket, that {@link mayUpgrade} allows. */
  upgrade(incoming: IncomingMessage, socket: Duplex, head: Buffer, via: Via): void {
    const asUpgrade = ({ headers: { upgrade } }: IncomingMessage) => [
      'connection',
      'upgrade',
      'upgrade',
      upgrade ?? '',
    ];
    let leave: () => void;
    try {
      leave = this.#places.take(via.client, {
        socket: incoming.socket,
        waitsForClient: () => socket.writableNeedDrain,
        end: () => socket.destroy(),
      });
    } catch (error) {
      endWith(socket, error);
      return;
    }
    const outgoing = this.#begin(incoming, via, asUpgrade(incoming));
    waitForAnswer(outgoing);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => outgoing.destroy());
    let isUpgraded = false;
    outgoing.once('close', () => {
      if (!isUpgraded) leave();
    });
    outgoing.on('upgrade', (answer, appSocket: Duplex, appHead) => {
      isUpgraded = true;
      socket.write(headOf(101, answer.statusMessage, [...passed(answer, via), ...asUpgrade(answer)]));
      socket.write(appHead);
      appSocket.write(head);
      this.#upgraded.add(socket);
      (appSocket as Socket).setTimeout(SILENT_MS, () => appSocket.destroy());
      pipeline(socket, appSocket, socket, () => {
        this.#upgraded.delete(socket);
        socket.destroy();
        leave();
      });
    });
    // The app declines the upgrade. The connection ends with its response.
    outgoing.on('response', (answer) => {
      const { 'content-length': length } = answer.headers;
      const ending = ['connection', 'close', ...(length === undefined ? [] : ['content-length', length])];
      const headers = passed(answer, via, (name) => name === 'content-length');
      socket.write(headOf(answer.statusCode!, answer.statusMessage, [...headers, ...ending]));
      pipeline(answer, socket, () => socket.destroy());
    });
    outgoing.on('error', (error) => endWith(socket, error));
    outgoing.end();
  }

  /**
   * Resolves once no request is in flight. For an instance that gets no further requests; ignores upgraded connections.
   */
  async idle(): Promise<void> {
    if (this.#underWay === 0) return;
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve;
    });
  }

  /** Closes all connections to the app. */
  close(): void {
    this.#agent.destroy();
    for (const socket of this.#upgraded) socket.destroy();
  }

  #begin(incoming: IncomingMessage, via: Via, more: readonly string[]): ClientRequest {
    const headers = [
      // CGI and WSGI apps do not distinguish the two spellings.
      ...passed(incoming, via, (name) => FORWARDED.has(name.replaceAll('_', '-'))),
      ...['x-forwarded-for', via.addresses, 'x-forwarded-proto', via.proto],
      ...['x-forwarded-host', incoming.headers.host ?? ''],
      ...(via.prefix === undefined ? [] : ['x-forwarded-prefix', via.prefix]),
      ...more,
    ];
    return httpRequest({ agent: this.#agent, method: incoming.method, path: incoming.url, setHost: false, headers });
  }
}

/**
 * Whether the client's upgrade offer is forwarded. Not for other HTTP versions, and not with a body: an app that
 * declines would wait for the body and mistake the next request on its connection for it. Such a request is handled
 * without an upgrade.
 */
export const mayUpgrade = (incoming: IncomingMessage): boolean =>
  incoming.headers.upgrade?.toLowerCase() !== 'h2c' && !mayHaveBody(incoming);

/** Aborts the request if no response arrives in time, and later if the response stalls. */
function waitForAnswer(outgoing: ClientRequest, waitsForBody = () => false): { restart(): void } {
  const timer = setTimeout(() => {
    const seconds = FIRST_BYTE_MS / 1000;
    outgoing.destroy(
      waitsForBody()
        ? new GatewayError(408, `No more of the body arrived for ${seconds} seconds.`)
        : new GatewayError(504, `The app did not respond within ${seconds} seconds.`),
    );
  }, FIRST_BYTE_MS);
  outgoing.once('close', () => clearTimeout(timer));
  outgoing.once('response', () => {
    clearTimeout(timer);
    outgoing.setTimeout(SILENT_MS, () => outgoing.destroy());
  });
  outgoing.once('upgrade', () => clearTimeout(timer));
  return { restart: () => timer.refresh() };
}

function passOn(answer: IncomingMessage, response: ServerResponse, via: Via): void {
  if (response.destroyed) return void answer.destroy();
  response.sendDate = false;
  try {
    response.writeHead(answer.statusCode!, answer.statusMessage, passed(answer, via));
  } catch {
    answer.destroy();
    answerWith(response, undefined);
    return;
  }
  // Sends data of one event loop turn together: the head does not wait for a later body.
  const { socket } = response;
  socket?.cork();
  response.flushHeaders();
  let [isOver, isComplete] = [false, false];
  atEndOfTurn(() => {
    isOver = true;
    if (isComplete) response.end();
    else socket?.uncork();
  });
  // Forwards all received data at once: an app that sends chunks of one byte costs no more than any other.
  let isFull = false;
  const carry = () => {
    const data = isFull ? null : answer.read();
    if (data === null || response.write(data)) return;
    isFull = true;
    response.once('drain', () => {
      isFull = false;
      carry();
    });
  };
  answer.on('readable', carry);
  answer.once('end', () => {
    if (answer.rawTrailers.length > 0) response.addTrailers(pairsOf(answer.rawTrailers));
    isComplete = true;
    if (isOver) response.end();
  });
  // If the app aborts its response, so does the gateway: a client must not mistake a part for the whole.
  answer.once('close', () => {
    if (!answer.complete) response.destroy();
  });
}

/**
 * Runs the work of all callers at the end of this turn: a client that reads many responses is woken once for all of
 * them.
 */
function atEndOfTurn(work: () => void): void {
  if (atEnd.length === 0) {
    setImmediate(() => {
      for (const each of atEnd.splice(0)) each();
    });
  }
  atEnd.push(work);
}
const atEnd: (() => void)[] = [];

/** Returns the headers to forward: alternating names and values, in their order. */
function passed(
  message: IncomingMessage,
  { withheld, answerHeaders = [] }: Via,
  isLeftOut: (name: string) => boolean = () => false,
): string[] {
  const named = (message.headers.connection ?? '')
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
    .filter((name) => !END_TO_END.has(name));
  const headers: string[] = [];
  for (let index = 0; index < message.rawHeaders.length; index += 2) {
    const name = message.rawHeaders[index]!.toLowerCase();
    if (HOP_BY_HOP.has(name) || named.includes(name) || withheld?.has(name) || isLeftOut(name)) continue;
    headers.push(message.rawHeaders[index]!, message.rawHeaders[index + 1]!);
  }
  return message.statusCode == null ? headers : [...headers, ...answerHeaders];
}

const pairsOf = (raw: readonly string[]): [string, string][] =>
  raw.flatMap((name, index) => (index % 2 === 0 ? [[name, raw[index + 1]!] as [string, string]] : []));
