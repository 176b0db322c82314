import { AsyncLocalStorage } from 'node:async_hooks';
import { hash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage, RequestListener } from 'node:http';
import type { HostDeps, LogFields } from '#aws/deps.ts';
import { devUserOf } from '#core/agents/dev/slots.ts';
import { resolveAgent } from '#core/agents/store.ts';
import type { createApp } from '#core/api/app.ts';
import { PlatformError } from '#core/base/errors.ts';
import { type CallRequest, wantsNoWait } from '#core/execution/calls/read-call.ts';
import { UPLOADED_JSON } from '#core/execution/calls/routes.ts';
import { mediaType, readBounded } from '#core/http/body.ts';
import { BodyBudget } from '#core/http/body-budget.ts';
import { directLimit } from '#core/http/direct-limit.ts';
import { errorResponse } from '#core/http/envelope.ts';
import { GATEWAY_HEADER, GATEWAY_ID_HEADER, SOURCE_HEADER } from '#core/http/front-headers.ts';
import type { HttpRequest, HttpResponse } from '#core/http/message.ts';
import { requestListener } from '#core/http/node-adapter.ts';
import type { Incoming, Route } from '#core/http/route.ts';
import { answering, type HandlerDeps } from './lambda.ts';

/** Memory for bodies. AWS gives an environment twice as much, as far as is known (docs/decisions/0014-call-server.md). */
const BODY_MEMORY_BYTES = 1024 ** 3;

/** Dependencies of the server, beside those of its handlers. */
export type CallServerDeps = HandlerDeps &
  Pick<HostDeps, 'background' | 'settled' | 'log' | 'ids' | 'clock'> & {
    readonly config: Pick<HostDeps['config'], 'gatewayToken' | 'maxCallBodyBytes' | 'maxDirectBodyBytes'>;
  };

export interface CallServerOptions<D> {
  readonly rows: readonly Route[];
  readonly handlersOf: (deps: D) => Parameters<typeof createApp>[2];
  /** Whether a request needs an environment of its own: it is passed on to a function. */
  readonly needsFunction: (deps: D, operationId: string, incoming: Incoming) => Promise<boolean>;
  /** Invokes that function with an event of API Gateway. */
  readonly passCall: (event: object) => Promise<HttpResponse>;
  /** @default 1 GB */
  readonly bodyMemoryBytes?: number;
}

/**
 * Whether a call needs an environment of its own: it works on after its response, or its memory does not follow from the
 * length of its body. Uploads and outputs of programs are many times as large as what was declared.
 */
export async function needsFunction(
  deps: Parameters<typeof resolveAgent>[0],
  operationId: string,
  incoming: Incoming,
): Promise<boolean> {
  if (operationId !== 'callAgent' && operationId !== 'callLoop') return false;
  const { params, caller, headers, request } = incoming as unknown as CallRequest;
  if (wantsNoWait(headers) || [UPLOADED_JSON, 'multipart/form-data'].includes(mediaType(request))) return true;
  if (operationId === 'callLoop') return false;
  const agent = await resolveAgent(deps, params.org, params.agent, params.version, devUserOf(caller));
  return agent?.definition.execution_engine === 'code_runtime';
}

/** A request under way. */
interface Exchange {
  readonly incoming: IncomingMessage;
  readonly fields: LogFields;
  /** Work of this request that is not done. It may outlive the response. */
  readonly pending: Set<Promise<unknown>>;
}

const exchanges = new AsyncLocalStorage<Exchange>();

/** Returns the fields of log lines of the current request. */
export const fieldsOfRequest = (): LogFields | undefined => exchanges.getStore()?.fields;

/**
 * Returns the listener of an HTTP server that serves these rows for API Gateway, many requests at once. Requests of
 * other senders are refused before anything of them is read.
 *
 * Throws if the settings name no token of the gateway, or if a row has no handler.
 */
export function createCallServer<D extends CallServerDeps>(
  given: D,
  { rows, handlersOf, needsFunction, passCall, bodyMemoryBytes = BODY_MEMORY_BYTES }: CallServerOptions<D>,
): RequestListener {
  const { config, log, ids } = given;
  const { gatewayToken } = config;
  if (!gatewayToken) throw new Error('PLATFORM_GATEWAY_TOKEN is not set, so the server would serve anybody.');
  const deps: D = {
    ...given,
    background(work: Promise<void>) {
      const { pending } = exchanges.getStore() ?? {};
      const done = given.background(work).finally(() => pending?.delete(done));
      pending?.add(done);
      return done;
    },
  };
  const limit = directLimit(config, config.maxCallBodyBytes);
  const budget = new BodyBudget(bodyMemoryBytes, limit.bytes);
  const isGateway = tokenCheck(gatewayToken);

  /** Returns the answer of the function to the current request. */
  const passOn = async ({ request }: Incoming) => {
    const bytes = await readBounded(request, limit);
    const { status, headers, body } = await passCall(toEvent(request, bytes, exchanges.getStore()!.incoming.headers));
    const content = typeof body === 'string' ? Buffer.from(body) : (body ?? Buffer.alloc(0));
    return { status, headers, raw: { contentType: headers['content-type'] ?? 'application/json', content } };
  };
  const answerRow = answering(deps, rows, (own) =>
    Object.fromEntries(
      Object.entries(handlersOf(own)).map(([operationId, handle]) => [
        operationId,
        async (incoming: Incoming) =>
          (await needsFunction(own, operationId, incoming)) ? passOn(incoming) : handle(incoming),
      ]),
    ),
  );

  const listener = requestListener(
    async (given, incoming) => {
      const { headers } = incoming;
      if (!isGateway(headers[GATEWAY_HEADER])) return errorResponse(notTheGateway(), ids.uuid(), {}, config);
      const { request, end } = budget.admit(given);
      ended(incoming, exchanges.getStore()!, end);
      return answerRow(request, String(headers[SOURCE_HEADER]));
    },
    { onError: (error) => log.warn('answer not sent', { error: String(error) }) },
  );
  return (incoming, response) => {
    const exchange = { incoming, fields: fieldsOf(incoming), pending: new Set<Promise<unknown>>() };
    responses.set(incoming, new Promise((closed) => response.once('close', closed)));
    exchanges.run(exchange, () => listener(incoming, response));
  };
}

/** Resolves when the response of a request has been sent, or its client has left. */
const responses = new WeakMap<IncomingMessage, Promise<unknown>>();

/** Calls `end` once the response is sent and the work of the request done, which holds its input. */
function ended(incoming: IncomingMessage, { pending }: Exchange, end: () => void): void {
  const done = async () => {
    await responses.get(incoming);
    while (pending.size > 0) await Promise.allSettled(pending);
  };
  void done().then(end);
}

const fieldsOf = ({ headers }: IncomingMessage): LogFields => ({
  gateway_request_id: String(headers[GATEWAY_ID_HEADER]),
});

/** Compares hashes: the duration tells nothing of the token, and lengths do not matter. */
function tokenCheck(token: string): (given: string | string[] | undefined) => boolean {
  const digest = (text: string) => Buffer.from(hash('sha256', text));
  const wanted = digest(token);
  return (given) => typeof given === 'string' && timingSafeEqual(digest(given), wanted);
}

const notTheGateway = (): PlatformError =>
  new PlatformError('FORBIDDEN', 'This address serves only API Gateway: use the address of the platform.');

/** Builds the event that API Gateway would have sent to a function for this request. */
function toEvent({ method, url }: HttpRequest, bytes: Uint8Array, headers: IncomingHttpHeaders): object {
  const [path = '/', search = ''] = url.split(/\?(.*)/s);
  const query = Map.groupBy(new URLSearchParams(search), ([name]) => name);
  return {
    httpMethod: method,
    path,
    // As many segments as the path: there is no base path before it.
    resource: path,
    multiValueHeaders: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value].flat()])),
    multiValueQueryStringParameters: Object.fromEntries(
      [...query].map(([name, pairs]) => [name, pairs.map(([, value]) => value)]),
    ),
    body: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64'),
    isBase64Encoded: true,
    requestContext: {
      requestId: String(headers[GATEWAY_ID_HEADER]),
      identity: { sourceIp: String(headers[SOURCE_HEADER]) },
    },
  };
}
