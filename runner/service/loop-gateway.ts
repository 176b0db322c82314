import { hash, timingSafeEqual } from 'node:crypto';
import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { pipeline } from 'node:stream';
import { bearerOf } from '#core/http/bearer.ts';
import type { BootDocument } from '#core/ports/service-host.ts';
import { ACCESS_KEY } from '#core/services/environment.ts';
import { answerWith, GatewayError } from './gateway-error.ts';
import { mayHaveBody, onceBodyBegins, Places } from './places.ts';

/** Idle timeout. Event streams send at least every 15 seconds, and a call takes less than this. */
const SILENT_MS = 10 * 60_000;

/** Request headers that are forwarded to the call. */
const PASSED_ON = ['accept', 'content-length', 'content-type', 'idempotency-key', 'prefer'] as const;
/** Response headers of the platform that are forwarded to the client. */
const PASSED_BACK: ReadonlySet<string> = new Set([
  ...['cache-control', 'content-length', 'content-type', 'idempotent-replayed', 'location', 'preference-applied'],
  ...['retry-after', 'x-platform-run-id', 'x-request-id', 'x-run-id'],
]);

/** Address of the platform for an instance, and the token of its revision. */
export interface PlatformAccess {
  /** Address without a trailing slash. */
  readonly url: string;
  readonly token: string;
}

/**
 * Handles the requests of a service that is a loop, and so has no process
 * (`docs/interface/service-instances.md#loops`): each `POST` becomes a call of the agent, which the platform runs in
 * its own sandbox.
 */
export class LoopGateway {
  readonly #boot: BootDocument;
  readonly #platform: PlatformAccess;
  readonly #places = new Places();
  #underWay = 0;
  #onIdle = () => {};

  constructor(boot: BootDocument, platform: PlatformAccess) {
    this.#boot = boot;
    this.#platform = platform;
  }

  /** @param client Address that the request counts against. */
  request(incoming: IncomingMessage, response: ServerResponse, client: string): void {
    try {
      this.#checkKey(incoming);
      this.#answer(incoming, response, client);
    } catch (error) {
      answerWith(response, error);
    }
  }

  /** Resolves once no call is in flight. */
  async idle(): Promise<void> {
    if (this.#underWay === 0) return;
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve;
    });
  }

  #answer(incoming: IncomingMessage, response: ServerResponse, client: string): void {
    if (!/^\/(\?|$)/.test(incoming.url ?? '/')) {
      throw new GatewayError(404, `Not found: ${this.#boot.agent} is a loop. Send POST / with a JSON body.`);
    }
    if (incoming.method === 'POST') onceBodyBegins(incoming, response, () => this.#call(incoming, response, client));
    else if (incoming.method === 'GET' || incoming.method === 'HEAD') this.#describe(response);
    else {
      throw new GatewayError(405, 'A loop accepts POST with a JSON body, and GET for a description of its input.', {
        allow: 'GET, HEAD, POST',
      });
    }
  }

  #describe(response: ServerResponse): void {
    const { agent, app } = this.#boot;
    const body = JSON.stringify({
      agent,
      takes: {
        method: 'POST',
        path: '/',
        content_type: 'application/json',
        input_schema: app.kind === 'loop' ? app.inputSchema : null,
      },
      answers: ['application/json', 'text/event-stream'],
    });
    response
      .writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) })
      .end(body);
  }

  /** Throws {@link GatewayError} if the service has a key and the request lacks it. */
  #checkKey({ headers }: IncomingMessage): void {
    const key = this.#boot.secrets[ACCESS_KEY];
    if (key === undefined) return;
    const given = bearerOf(headers.authorization);
    if (timingSafeEqual(hash('sha256', given, 'buffer'), hash('sha256', key, 'buffer'))) return;
    throw new GatewayError(401, `This service requires a key: send "Authorization: Bearer" with its ${ACCESS_KEY}.`, {
      'www-authenticate': 'Bearer',
    });
  }

  #call(incoming: IncomingMessage, response: ServerResponse, client: string): void {
    let leave: () => void;
    try {
      leave = this.#places.take(client, {
        socket: incoming.socket,
        waitsForClient() {
          const waitsForBody = mayHaveBody(incoming) && !incoming.complete && !outgoing.writableNeedDrain;
          return (waitsForBody && !response.headersSent) || response.writableNeedDrain;
        },
        end(error) {
          answerWith(response, error);
          outgoing.destroy();
        },
      });
    } catch (error) {
      answerWith(response, error);
      return;
    }
    this.#underWay += 1;
    response.once('close', () => {
      leave();
      this.#underWay -= 1;
      if (this.#underWay === 0) this.#onIdle();
    });
    const url = new URL(`${this.#platform.url}/runner/services/${this.#boot.serviceId}/calls`);
    const given = PASSED_ON.flatMap((name) =>
      incoming.headers[name] === undefined ? [] : [[name, incoming.headers[name]]],
    );
    const outgoing = (url.protocol === 'https:' ? httpsRequest : httpRequest)(url, {
      method: 'POST',
      headers: { ...Object.fromEntries(given), authorization: `Bearer ${this.#platform.token}` },
    });
    outgoing.setTimeout(SILENT_MS, () => outgoing.destroy(new Error('no data arrived for ten minutes')));
    outgoing.once('response', (answer) => passBack(answer, response));
    outgoing.on('error', () => {
      answerWith(response, new GatewayError(503, 'The platform cannot be reached at the moment.'));
    });
    response.once('close', () => {
      if (!response.writableFinished) outgoing.destroy();
    });
    incoming.once('close', () => {
      if (!incoming.complete) outgoing.destroy();
    });
    incoming.pipe(outgoing);
  }
}

function passBack(answer: IncomingMessage, response: ServerResponse): void {
  if (response.destroyed) {
    answer.destroy();
    return;
  }
  if (answer.statusCode === 401) {
    answer.resume();
    answerWith(response, new GatewayError(503, 'This instance of the service is being replaced or stopped.'));
    return;
  }
  const headers = Object.entries(answer.headers).filter(([name]) => PASSED_BACK.has(name));
  response.writeHead(answer.statusCode!, Object.fromEntries(headers));
  response.flushHeaders();
  // If the platform aborts its response, so does the gateway: a client must not mistake a part for the whole.
  pipeline(answer, response, () => {});
}
