import { Hono } from 'hono';
import type * as z from 'zod';
import { checkScope } from '#core/accounts/grants/rights.ts';
import { AddressLimits } from '#core/accounts/limits/address.ts';
import { callsLeft } from '#core/accounts/limits/admission.ts';
import { refuseWithoutTime } from '#core/accounts/limits/check-time.ts';
import { type LimitError, type RateLimit, rateLimitHeaders } from '#core/accounts/limits/rate-limit.ts';
import type { Caller } from '#core/base/caller.ts';
import { type ErrorCode, isPlatformError, PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { readJson } from '#core/http/body.ts';
import { errorResponse } from '#core/http/envelope.ts';
import { requestIdOf } from '#core/http/request-id.ts';
import { type Incoming, isCountedByAddress, isRaw, type RawAnswer, type Route, stores } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import { checkSpace } from '#core/ports/space.ts';
import { authenticate } from './auth.ts';

/** For management routes. Calls and uploads read their bodies under limits of their own. */
const MAX_JSON_BODY_BYTES = 2 * 1024 * 1024;
/** No name or id is longer, and a longer one might not fit into the key of an item. */
const MAX_SEGMENT_LENGTH = 256;

// biome-ignore lint/suspicious/noExplicitAny: rows and handlers are tied together by the types of `Handlers`, which a loop over rows cannot see.
type AnyHandlers = Record<string, (incoming: Incoming<any>) => Promise<AnyOutgoing>>;
interface AnyOutgoing {
  readonly status: number;
  readonly body?: unknown;
  readonly raw?: RawAnswer;
  readonly headers?: Readonly<Record<string, string>>;
}

/** `address`: the client's, from the host. Without it, requests are not limited by address. */
export type App = (request: Request, address?: string) => Promise<Response>;

/** Dependencies of the pipeline itself; handlers have their own. */
type AppDeps = Pick<Deps, 'config' | 'main' | 'runs' | 'counters' | 'clock' | 'ids' | 'log' | 'space'>;

/**
 * The API as one function, the same on Lambda and locally. Every request passes the same steps: request id, match,
 * authenticate (callers without a valid key are limited by address), parse, authorise, handle, check the answer, encode.
 * One catch makes the error envelope. Every answer has rate limit headers.
 *
 * Rows are matched in order, so the table lists fixed paths before `/{org}/{agent}/{version}/{endpoint}`. `routes` are the
 * rows to serve. `table` is the whole table: a function that serves some rows still answers 405 for methods of others.
 */
export function createApp(
  deps: AppDeps,
  routes: readonly Route[],
  handlers: AnyHandlers,
  table: readonly Route[] = routes,
): App {
  const router = new Hono<{ Bindings: Exchange }>();
  const addresses = new AddressLimits(deps);
  const matches = pathMatcher(table);
  const nothingAt = ({ req, env }: { req: { method: string; path: string }; env: Exchange }): PlatformError => {
    show(env, addresses.all());
    const there = table.filter((route) => matches(route, req.path));
    return there.length === 0 ? notFound(req.path) : methodNotAllowed(req.method, there, env);
  };
  for (const route of routes) {
    const handler = handlers[route.operationId];
    if (handler === undefined) throw new Error(`no handler for ${route.operationId}`);
    router.on(route.method, route.path.replaceAll(/\{(\w+)\}/g, ':$1'), (context) => {
      if (!matches(route, context.req.path)) throw nothingAt(context);
      return serve({ ...deps, addresses }, route, handler, context.req.raw, context.req.param(), context.env);
    });
  }
  router.notFound((context) => {
    const { req, env } = context;
    const error = nothingAt(context);
    const wanted = req.method === 'OPTIONS' ? req.header('access-control-request-method') : undefined;
    // `nothingAt` has listed the allowed methods. Browsers send this preflight before every call.
    if (wanted === undefined || error.code !== 'METHOD_NOT_ALLOWED') throw error;
    return new Response(null, { status: 204, headers: { ...env.responseHeaders, ...preflight(req) } });
  });
  router.onError((error, context) => {
    const limit = limitIn(error);
    if (limit) show(context.env, limit);
    // Other 5xx codes are faults of the agent or of a provider.
    if (!isPlatformError(error) || error.code === 'INTERNAL_ERROR') logFailure(deps, context.env.requestUuid, error);
    return errorResponse(error, context.env.requestUuid, context.env.responseHeaders);
  });

  return async (request, address) => {
    const started = deps.clock.now();
    const requestUuid = deps.ids.uuid();
    const requestId = requestIdOf(requestUuid);
    const responseHeaders = { 'x-request-id': requestId, ...(request.headers.has('origin') && CORS) };
    const response = await router.fetch(request, { requestUuid, responseHeaders, address });
    deps.log.debug('request', {
      request_id: requestId,
      method: request.method,
      status: response.status,
      duration_ms: deps.clock.now() - started,
    });
    return response;
  };
}

/** State of one request in the router. */
interface Exchange {
  readonly requestUuid: string;
  readonly responseHeaders: Record<string, string>;
  readonly address?: string;
}

type ServeDeps = AppDeps & { readonly addresses: AddressLimits };

async function serve(
  deps: ServeDeps,
  route: Route,
  handler: AnyHandlers[string],
  request: Request,
  params: Record<string, string>,
  exchange: Exchange,
): Promise<Response> {
  const receivedAt = deps.clock.now();
  const caller = await identify(deps, route, request.headers, params.workspace_id, exchange);
  if (route.admits && caller) await refuseWithoutTime(deps, caller.workspace);
  const showLeft = async () => caller && showCallsLeft(deps, caller.workspace, exchange);
  const [answer] = await Promise.allSettled([
    handle(deps, route, handler, request, { params, caller, receivedAt, ...exchange }),
    route.admits || showLeft(),
  ]);
  const limit = answer.status === 'rejected' ? limitIn(answer.reason) : undefined;
  if (answer.status === 'rejected' && isRefusedSecret(route, answer.reason)) await countAddress(deps, exchange);
  // The call was refused before its admission, or is not counted.
  if (route.admits && !limit && !(LIMIT_HEADER in exchange.responseHeaders)) await showLeft();
  if (answer.status === 'rejected') throw answer.reason;
  return encode(route, answer.value, exchange.responseHeaders);
}

/** Parses, authorises, and calls the handler. */
async function handle(
  deps: Pick<AppDeps, 'main' | 'space'>,
  route: Route,
  handler: AnyHandlers[string],
  request: Request,
  { params, caller, ...rest }: Exchange & { params: Record<string, string>; caller?: Caller; receivedAt: number },
): Promise<AnyOutgoing> {
  if (stores(route)) await checkSpace(deps);
  const schemas = route.request ?? {};
  const query = schemas.query && parse('query', schemas.query, queryOf(request.url));
  const headers = schemas.headers && parse('header', schemas.headers, Object.fromEntries(request.headers));
  if (schemas.params) parse('path', schemas.params, params);
  const body = schemas.body && !isRaw(schemas.body) ? parse('body', schemas.body, await readBody(request)) : undefined;
  if (route.role === 'owner' && caller?.role !== 'owner') {
    throw new PlatformError('FORBIDDEN', `Only an owner of the workspace "${caller?.workspace.slug}" may do this.`);
  }
  if (route.scope !== undefined && caller?.agent) await checkScope(deps, caller.agent, route.scope);
  return handler({
    params,
    query,
    headers,
    body,
    caller: route.auth === 'key' || route.auth === 'optional' ? caller : undefined,
    request,
    ...rest,
  });
}

/**
 * The caller of a request; `undefined` on routes without a key. Callers without a valid key are limited by address, those
 * of webhooks, instances and providers only once {@link serve} knows that the secret or signature is wrong.
 * Throws RATE_LIMITED, and on routes with a key what {@link authenticate} throws.
 */
async function identify(
  deps: ServeDeps,
  route: Route,
  headers: Headers,
  workspaceId: string | undefined,
  exchange: Exchange,
): Promise<Caller | undefined> {
  const { addresses } = deps;
  const needsKey = route.auth === 'key' || (route.auth === 'optional' && headers.has('authorization'));
  let refused: PlatformError | undefined;
  if (needsKey || (route.auth !== 'instance' && isCountedByAddress(route) && headers.has('authorization'))) {
    try {
      return await authenticate(deps, headers, workspaceId, needsKey ? route : { agents: true });
    } catch (error) {
      if (!isPlatformError(error)) throw error;
      refused = error;
    }
  }
  if (exchange.address === undefined || !isCountedByAddress(route) || route.auth in REFUSALS) {
    show(exchange, addresses.all());
  } else if (refused?.code === 'FORBIDDEN') {
    // The key is valid, but not for this route or workspace.
    show(exchange, await addresses.left(exchange.address));
  } else {
    await countAddress(deps, exchange);
  }
  if (needsKey) throw refused;
  return undefined;
}

/**
 * What the wrong secret or signature is answered, where one serves as the key: requests with the right one are never limited
 * by address.
 */
const REFUSALS: { readonly [auth: string]: readonly ErrorCode[] } = {
  webhook: ['FORBIDDEN', 'NOT_FOUND'],
  instance: ['UNAUTHORIZED'],
  signature: ['INVALID_INPUT'],
};

const isRefusedSecret = ({ auth }: Route, error: unknown): boolean =>
  isPlatformError(error) && (REFUSALS[auth]?.includes(error.code) ?? false);

/** Throws RATE_LIMITED. */
async function countAddress({ addresses }: ServeDeps, exchange: Exchange): Promise<void> {
  if (exchange.address !== undefined) show(exchange, await addresses.count(exchange.address));
}

const LIMIT_HEADER = 'x-ratelimit-limit';

/** The limit that caused an error, if one did. */
const limitIn = (error: unknown): RateLimit | undefined => (error as Partial<LimitError>).rateLimit;

function show({ responseHeaders }: Exchange, rateLimit: RateLimit): void {
  Object.assign(responseHeaders, rateLimitHeaders(rateLimit));
}

/** Never throws: the answer matters more than its headers. */
async function showCallsLeft(deps: ServeDeps, workspace: Workspace, exchange: Exchange): Promise<void> {
  try {
    show(exchange, await callsLeft(deps, workspace));
  } catch (error) {
    deps.log.warn('calls left unknown', { request_id: requestIdOf(exchange.requestUuid), error: String(error) });
  }
}

/** A missing body counts as an empty object: some clients send none where every member is optional. */
async function readBody(request: Request): Promise<unknown> {
  const body = await readJson(request, { bytes: MAX_JSON_BODY_BYTES });
  return body === undefined ? {} : body;
}

/** Of repeated names the last counts: lists in queries are comma-separated. */
const queryOf = (url: string): Record<string, string> => Object.fromEntries(new URL(url).searchParams);

/** Zod's own text, "received undefined", would confuse a client that sent nothing. */
const whereMissing = (issue: z.core.$ZodRawIssue): string | undefined =>
  issue.code === 'invalid_type' && issue.input === undefined
    ? `is missing: it must be of the type ${issue.expected}`
    : undefined;

function parse(part: string, schema: z.ZodType, value: unknown): unknown {
  const result = schema.safeParse(value, { error: whereMissing });
  if (result.success) return result.data;
  const problems = result.error.issues.map((issue) => {
    const field = [part, ...issue.path].join('.');
    return `${field}: ${issue.message}`;
  });
  throw new PlatformError('INVALID_INPUT', problems.slice(0, 10).join('; '));
}

/**
 * Removes members that the row's shape does not name. Sets all headers at construction: a `Response` whose headers change
 * later leaves the server's fast path.
 */
function encode(route: Route, answer: AnyOutgoing, common: Readonly<Record<string, string>>): Response {
  const { status, raw } = answer;
  if (raw !== undefined) {
    const headers = { ...common, ...answer.headers, 'content-type': raw.contentType };
    return new Response(rawBody(raw.content), { status, headers });
  }
  const shape = route.response[status];
  if (shape === undefined) throw new Error(`${route.operationId} answered ${status}, which its row does not list`);
  if (isRaw(shape)) {
    const headers = { ...common, 'content-type': shape.raw[0]!, ...answer.headers };
    return new Response(rawBody(answer.body), { status, headers });
  }
  const checked = shape.safeParse(answer.body);
  if (!checked.success) throw new Error(`${route.operationId} answered a wrong body: ${checked.error.message}`);
  const headers = { ...common, ...answer.headers, 'content-type': 'application/json' };
  return new Response(JSON.stringify(checked.data), { status, headers });
}

const rawBody = (body: unknown): Uint8Array<ArrayBuffer> | ReadableStream =>
  body instanceof Uint8Array
    ? (body as Uint8Array<ArrayBuffer>)
    : ReadableStream.from(body as AsyncIterable<Uint8Array>);

/**
 * Pages of any origin may use the API and read its answers, because rights come from a key and never from a cookie. With
 * `*`, browsers send no credentials of their own.
 */
const CORS = { 'access-control-allow-origin': '*', 'access-control-expose-headers': '*' };

/** `access-control-allow-headers: *` would not cover `Authorization`. Browsers keep the answer for two hours at most. */
const preflight = (req: { header(name: string): string | undefined }): Record<string, string> => ({
  'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE',
  'access-control-allow-headers': req.header('access-control-request-headers') ?? 'authorization',
  'access-control-max-age': '7200',
});

const notFound = (path: string): PlatformError =>
  new PlatformError('NOT_FOUND', `There is nothing at ${path.slice(0, 200)}; see GET /openapi.json.`);

function methodNotAllowed(method: string, there: readonly Route[], exchange: Exchange): PlatformError {
  const allowed = [...new Set(there.map((route) => route.method))].sort().join(', ');
  exchange.responseHeaders.allow = allowed;
  return new PlatformError('METHOD_NOT_ALLOWED', `${method} is not allowed here, only ${allowed}.`);
}

/**
 * Whether a row is among those of a path, whatever the method. Rows of the most specific address count alone: nothing
 * else is at `/agents/validate`, although it looks like `/agents/{id}`. First segments of fixed paths never stand for an
 * org: otherwise a mistyped management path would be answered as the call of an agent.
 */
function pathMatcher(routes: readonly Route[]): (route: Route, path: string) => boolean {
  const isFree = (segment: string) => segment.startsWith('{');
  const fixed = new Set(routes.map((route) => route.path.split('/')[1]!).filter((first) => !isFree(first)));
  const addresses = new Map(routes.map(({ path }) => [path, path.split('/')]));
  const fits = (wanted: readonly string[], given: readonly string[]): boolean => {
    if (wanted.length !== given.length || (isFree(wanted[1]!) && fixed.has(given[1]!))) return false;
    return wanted.every((segment, i) => {
      const { length } = given[i]!;
      return isFree(segment) ? length > 0 && length <= MAX_SEGMENT_LENGTH : segment === given[i];
    });
  };
  const moreSpecific = new Map(
    [...addresses].map(([path, segments]) => {
      const covers = (other: readonly string[]) =>
        other.length === segments.length &&
        segments.every((segment, i) => segment === other[i] || (i > 1 && isFree(segment)));
      return [
        path,
        [...addresses].filter(([other, there]) => other !== path && covers(there)).map(([, there]) => there),
      ];
    }),
  );
  return (route, path) => {
    const given = path.split('/');
    return (
      fits(addresses.get(route.path)!, given) &&
      !moreSpecific.get(route.path)!.some((segments) => fits(segments, given))
    );
  };
}

function logFailure(deps: AppDeps, requestUuid: string, error: unknown): void {
  const detail = error instanceof Error ? { name: error.name, message: error.message, stack: error.stack } : { error };
  deps.log.error('request failed', { request_id: requestIdOf(requestUuid), ...detail });
}
