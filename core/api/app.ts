import type * as z from 'zod';
import { isAudited } from '#core/accounts/audit/rule.ts';
import { checkScope } from '#core/accounts/grants/rights.ts';
import { AddressLimits } from '#core/accounts/limits/address.ts';
import { callsAboutLeft } from '#core/accounts/limits/admission.ts';
import { rejectIfExhausted } from '#core/accounts/limits/cpu-budget.ts';
import { type LimitError, type RateLimit, rateLimitHeaders } from '#core/accounts/limits/rate-limit.ts';
import { sessionCookieOf } from '#core/accounts/sign-in/own-pages.ts';
import { checkStays, type Use } from '#core/accounts/workspaces/moving.ts';
import type { Caller } from '#core/base/caller.ts';
import { type ErrorCode, isHostBusy, isPlatformError, PlatformError } from '#core/base/errors.ts';
import { lazy } from '#core/base/lazy.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { readJson } from '#core/http/body.ts';
import { errorResponse } from '#core/http/envelope.ts';
import {
  type HttpRequest,
  type HttpResponse,
  type RequestHeaders,
  type ResponseBody,
  targetOf,
} from '#core/http/message.ts';
import { requestIdOf } from '#core/http/request-id.ts';
import { type Incoming, isCountedByAddress, isRaw, type RawAnswer, type Route, stores } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import { checkSpace } from '#core/ports/space.ts';
import { authenticate } from './auth.ts';
import { Router } from './router.ts';

/** Limit for management routes. Calls and uploads have their own limits. */
const MAX_JSON_BODY_BYTES = 2 * 1024 * 1024;

// biome-ignore lint/suspicious/noExplicitAny: rows and handlers are tied together by the types of `Handlers`, which a loop over rows cannot see.
type AnyHandlers = Record<string, (incoming: Incoming<any>) => Promise<AnyOutgoing>>;
interface AnyOutgoing {
  readonly status: number;
  readonly body?: unknown;
  readonly bodyOf?: object;
  readonly raw?: RawAnswer;
  readonly headers?: Readonly<Record<string, string>>;
}

/** `address`: client address, supplied by the host. Without it, requests are not limited by address. */
export type App = (request: HttpRequest, address?: string) => Promise<HttpResponse>;

/** Dependencies of the pipeline itself; handlers have their own. */
type AppDeps = Pick<Deps, 'config' | 'main' | 'runs' | 'counters' | 'clock' | 'ids' | 'log' | 'space'>;

/**
 * The API as one function, the same on Lambda and locally. Every request passes the same steps: request ID, route
 * match, authentication (callers without a valid key are limited by address), parsing, authorization, handler, response
 * check, encoding. A single catch creates the error envelope. Every response has rate limit headers.
 *
 * `routes` are the rows to serve. `table` is the whole table: a function that serves some rows still answers 405 for
 * methods of others.
 */
export function createApp(
  deps: AppDeps,
  routes: readonly Route[],
  handlers: AnyHandlers,
  table: readonly Route[] = routes,
): App {
  const router = new Router(table);
  const serving: ServeDeps = { ...deps, addresses: new AddressLimits(deps) };
  const served = new Map(routes.map((route) => [route, handlers[route.operationId]]));
  for (const [{ operationId }, handler] of served) {
    if (handler === undefined) throw new Error(`no handler for ${operationId}`);
  }

  async function answer(request: HttpRequest, exchange: Exchange): Promise<HttpResponse> {
    const target = targetOf(request.url);
    if (target === undefined) throw badTarget();
    const found = router.find(target.path);
    // A HEAD request gets the response to a GET without the body (RFC 9110, section 9.3.2).
    const route = found?.rows.get(request.method === 'HEAD' ? 'GET' : request.method);
    const handler = route && served.get(route);
    if (handler)
      return await serve(serving, route, handler, request, {
        ...exchange,
        params: found!.params,
        ...target,
      });
    show(exchange, serving.addresses.all());
    if (found === undefined) throw notFound(target.path);
    const refusal = methodNotAllowed(request.method, found.rows, exchange);
    // Browsers send a preflight request before every call.
    if (!isPreflight(request)) throw refusal;
    return { status: 204, headers: { ...exchange.responseHeaders, ...preflight(request.headers) }, body: null };
  }

  return async (request, address) => {
    const started = deps.clock.now();
    const requestUuid = deps.ids.uuid();
    const requestId = requestIdOf(requestUuid);
    const responseHeaders = { 'x-request-id': requestId, ...(request.headers.has('origin') && CORS) };
    const exchange: Exchange = { requestUuid, responseHeaders, address };
    let response: HttpResponse;
    try {
      response = await answer(request, exchange);
    } catch (error) {
      response = await refuse(deps, error, exchange, request.url);
    }
    deps.log.debug('request', {
      request_id: requestId,
      method: request.method,
      status: response.status,
      duration_ms: deps.clock.now() - started,
    });
    return request.method === 'HEAD' ? { ...response, body: await nothingOf(response.body) } : response;
  };
}

// Loaded lazily: few errors are those of requests in this form.
const openAiErrors = lazy(() => import('#core/wires/openai/errors.ts'));
const a2aErrors = lazy(() => import('#core/wires/a2a/errors.ts'));
const OPENAI_PATH = '/openai/v1/';
const A2A_PATH = '/a2a/';

async function refuse(deps: AppDeps, error: unknown, exchange: Exchange, url: string): Promise<HttpResponse> {
  const limit = limitIn(error);
  if (limit) show(exchange, limit);
  // A throttling host has its own alarm. Other 5xx codes are faults of the agent or a provider.
  if (isHostBusy(error))
    deps.log.warn('host busy', { request_id: requestIdOf(exchange.requestUuid), error: String(error) });
  else if (!isPlatformError(error) || error.code === 'INTERNAL_ERROR') logFailure(deps, exchange.requestUuid, error);
  const path = targetOf(url)?.path ?? '';
  if (path.startsWith(A2A_PATH)) {
    return (await a2aErrors()).a2aErrorResponse(error, exchange.requestUuid, exchange.responseHeaders);
  }
  if (path.startsWith(OPENAI_PATH)) {
    return (await openAiErrors()).openAiErrorResponse(error, exchange.requestUuid, exchange.responseHeaders);
  }
  return errorResponse(error, exchange.requestUuid, exchange.responseHeaders, deps.config);
}

/** Cancels a stream that is not read to its end, because it may hold a file open. */
async function nothingOf(body: ResponseBody): Promise<null> {
  if (body !== null && typeof body !== 'string' && !(body instanceof Uint8Array)) for await (const _ of body) break;
  return null;
}

// Loaded lazily: few rows accept access tokens.
const clientAccess = lazy(() => import('#core/accounts/clients/access.ts'));

/** State of one request. */
interface Exchange {
  readonly requestUuid: string;
  readonly responseHeaders: Record<string, string>;
  readonly address?: string;
}

/** A request that matches a route. */
interface Matched extends Exchange {
  readonly params: Readonly<Record<string, string>>;
  /** Percent-encoded, as the query. */
  readonly path: string;
  readonly query: string;
}

type ServeDeps = AppDeps & { readonly addresses: AddressLimits };

async function serve(
  deps: ServeDeps,
  route: Route,
  handler: AnyHandlers[string],
  request: HttpRequest,
  exchange: Matched,
): Promise<HttpResponse> {
  const receivedAt = deps.clock.now();
  const caller = await identify(deps, route, request.headers, exchange);
  if (caller?.workspace.move !== undefined) checkStays(caller.workspace, useOf(route, caller));
  if (route.admits && caller) await rejectIfExhausted(deps, caller.workspace);
  const showLeft = caller && (() => showCallsLeft(deps, caller.workspace, exchange));
  const shown = route.admits ? undefined : showLeft?.();
  let answer: AnyOutgoing | undefined;
  let failure: unknown;
  try {
    answer = await handle(deps, route, handler, request, { ...exchange, caller, receivedAt });
  } catch (error) {
    failure = error;
  }
  await shown;
  if (isRefusedSecret(route, failure)) await countAddress(deps, exchange);
  // The call was rejected before its admission, or is not counted.
  if (route.admits && !limitIn(failure) && !(LIMIT_HEADER in exchange.responseHeaders)) await showLeft?.();
  if (answer === undefined) throw failure;
  return encode(route, answer, exchange.responseHeaders);
}

function useOf({ method, changes }: Route, { agent }: Caller): Use {
  if (method === 'GET' || changes !== undefined) return 'read';
  return agent?.kind === 'run' ? 'run' : 'change';
}

/** Parses and authorizes a request, and calls its handler. */
export async function handle(
  deps: Pick<AppDeps, 'main' | 'space' | 'clock' | 'config' | 'log'>,
  route: Route,
  handler: AnyHandlers[string],
  request: HttpRequest,
  matched: Matched & { readonly caller?: Caller; readonly receivedAt: number },
): Promise<AnyOutgoing> {
  if (stores(route)) await checkSpace(deps);
  const schemas = route.request ?? {};
  const { params, caller } = matched;
  const query = schemas.query && parse('query', schemas.query, queryOf(matched.query));
  const headers = schemas.headers && parse('header', schemas.headers, headersOf(request, schemas.headers));
  if (schemas.params) parse('path', schemas.params, params);
  const body =
    schemas.body && !isRaw(schemas.body) ? parse('body', schemas.body, await readBody(request, route)) : undefined;
  if (route.role === 'owner' && caller?.role !== 'owner') {
    throw new PlatformError('FORBIDDEN', `Only an owner of the workspace "${caller?.workspace.slug}" may do this.`);
  }
  if (route.scope !== undefined && caller?.agent) await checkScope(deps, caller.agent, route.scope);
  const incoming = {
    ...matched,
    query,
    headers,
    body,
    caller: route.auth === 'key' || route.auth === 'optional' ? caller : undefined,
    request,
  };
  if (caller === undefined || !isAudited(route)) return await handler(incoming);
  // Loaded lazily: functions that serve agent calls have no audited routes.
  const { audited, changedWorkspace } = await import('#core/accounts/audit/log.ts');
  const workspaceId = await changedWorkspace(deps, caller, body);
  const subject = { workspaceId, operation: route.operationId, audit: route.audit, by: caller };
  return audited(deps, subject, incoming, () => handler(incoming));
}

/**
 * Returns the caller of a request; `undefined` on routes without a key. Callers without a valid key are limited by
 * address; callers of webhooks, instances, providers and the operator only once {@link serve} knows that the secret or
 * signature is wrong. Throws RATE_LIMITED, and on routes with a key the errors of {@link authenticate}.
 */
async function identify(
  deps: ServeDeps,
  route: Route,
  headers: RequestHeaders,
  exchange: Matched,
): Promise<Caller | undefined> {
  const { addresses } = deps;
  const hasKey = headers.has('authorization') || sessionCookieOf(deps.config, headers) !== undefined;
  const needsKey = route.auth === 'key' || (route.auth === 'optional' && hasKey);
  let refused: PlatformError | undefined;
  const hasOther = ['instance', 'operator', 'sign-in'].includes(route.auth);
  if (needsKey || (!hasOther && isCountedByAddress(route) && headers.has('authorization'))) {
    try {
      return await authenticate(deps, headers, exchange.params.workspace_id, needsKey ? route : ANY_KEY, exchange.path);
    } catch (error) {
      if (!isPlatformError(error)) throw error;
      refused = error;
    }
  }
  if (needsKey && route.clientTokens && refused) {
    const { challengeOf } = await clientAccess();
    Object.assign(exchange.responseHeaders, challengeOf(deps.config, { headers, path: exchange.path, route, refused }));
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

/** On routes that require no key, any valid key is accepted. */
const ANY_KEY = { method: 'GET', agents: true } as const;

/**
 * Error codes for a wrong secret or signature, on routes that use one instead of a key: requests with a valid one are
 * never limited by address.
 */
const REFUSALS: { readonly [auth: string]: readonly ErrorCode[] } = {
  webhook: ['FORBIDDEN', 'NOT_FOUND'],
  instance: ['UNAUTHORIZED'],
  operator: ['UNAUTHORIZED', 'FORBIDDEN'],
  signature: ['INVALID_INPUT'],
};

const isRefusedSecret = ({ auth }: Route, error: unknown): boolean =>
  isPlatformError(error) && (REFUSALS[auth]?.includes(error.code) ?? false);

/** Throws RATE_LIMITED. */
async function countAddress({ addresses }: ServeDeps, exchange: Exchange): Promise<void> {
  if (exchange.address !== undefined) show(exchange, await addresses.count(exchange.address));
}

const LIMIT_HEADER = 'x-ratelimit-limit';

/** Returns the limit that caused an error, if any. */
const limitIn = (error: unknown): RateLimit | undefined => (error as Partial<LimitError> | undefined)?.rateLimit;

function show({ responseHeaders }: Exchange, rateLimit: RateLimit): void {
  Object.assign(responseHeaders, rateLimitHeaders(rateLimit));
}

/** Never throws: the response matters more than its headers. */
async function showCallsLeft(deps: ServeDeps, workspace: Workspace, exchange: Exchange): Promise<void> {
  try {
    show(exchange, await callsAboutLeft(deps, workspace));
  } catch (error) {
    deps.log.warn('calls left unknown', { request_id: requestIdOf(exchange.requestUuid), error: String(error) });
  }
}

/** Reads a JSON body. A missing body counts as an empty object: some clients send none if every member is optional. */
async function readBody(request: HttpRequest, { maxBody }: Route): Promise<unknown> {
  const body = await readJson(request, maxBody ?? { bytes: MAX_JSON_BODY_BYTES });
  return body === undefined ? {} : body;
}

/** The last of repeated names counts: lists in queries are comma-separated. */
const queryOf = (query: string): Record<string, string> =>
  query === '' ? {} : Object.fromEntries(new URLSearchParams(query));

/** Returns the headers that the route declares. */
function headersOf({ headers }: HttpRequest, { shape }: z.ZodObject): Record<string, string> {
  const given: Record<string, string> = {};
  for (const name in shape) {
    const value = headers.get(name);
    if (value !== null) given[name] = value;
  }
  return given;
}

/** Zod's own text, "received undefined", would confuse clients that sent nothing. */
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

/** Encodes a response, without members that are not in the route's schema. */
export function encode(route: Route, answer: AnyOutgoing, common: Readonly<Record<string, string>>): HttpResponse {
  const { status, raw } = answer;
  if (raw !== undefined) {
    return { status, headers: { ...common, ...answer.headers, 'content-type': raw.contentType }, body: raw.content };
  }
  const shape = route.response[status];
  if (shape === undefined) throw new Error(`${route.operationId} answered ${status}, which its row does not list`);
  if (isRaw(shape)) {
    if (status === 304) return { status, headers: { ...common, ...answer.headers }, body: null };
    const headers = { ...common, 'content-type': shape.raw[0]!, ...answer.headers };
    return { status, headers, body: answer.body as Uint8Array | AsyncIterable<Uint8Array> };
  }
  const headers = { ...common, ...answer.headers, 'content-type': 'application/json' };
  return { status, headers, body: keptText(route, answer.bodyOf, () => textOf(route, shape, answer.body)) };
}

function textOf(route: Route, shape: z.ZodType, body: unknown): string {
  const checked = shape.safeParse(body);
  if (!checked.success) throw new Error(`${route.operationId} answered a wrong body: ${checked.error.message}`);
  return JSON.stringify(checked.data);
}

/** Caches encoded bodies by route (the view) and source object. Entries are collected with the source object. */
const keptTexts = new WeakMap<Route, WeakMap<object, string>>();

function keptText(route: Route, of: object | undefined, make: () => string): string {
  if (of === undefined || !Object.isFrozen(of)) return make();
  const texts = keptTexts.get(route) ?? new WeakMap<object, string>();
  keptTexts.set(route, texts);
  const text = texts.get(of) ?? make();
  texts.set(of, text);
  return text;
}

/**
 * Pages of any origin may use the API with a key and read its responses. They cannot use a session cookie: with `*` and
 * without `Access-Control-Allow-Credentials`, browsers neither reveal responses to requests with cookies nor send them
 * with the headers required for changes; `SameSite=Strict` withholds the cookie; and `authenticate` rejects it in any
 * other request.
 */
const CORS = { 'access-control-allow-origin': '*', 'access-control-expose-headers': '*' };

const isPreflight = ({ method, headers }: HttpRequest): boolean =>
  method === 'OPTIONS' && headers.has('access-control-request-method');

/**
 * `access-control-allow-headers: *` would not cover `Authorization`. Browsers cache the response for at most two hours.
 */
const preflight = (headers: RequestHeaders): Record<string, string> => ({
  'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE',
  'access-control-allow-headers': headers.get('access-control-request-headers') ?? 'authorization',
  'access-control-max-age': '7200',
});

const badTarget = (): PlatformError =>
  new PlatformError('INVALID_INPUT', 'The request target is neither a path nor a URL: send "GET /health".');

const notFound = (path: string): PlatformError =>
  new PlatformError('NOT_FOUND', `There is nothing at ${path.slice(0, 200)}; see GET /openapi.json.`);

function methodNotAllowed(method: string, there: ReadonlyMap<string, Route>, exchange: Exchange): PlatformError {
  const allowed = [...there.keys()].sort().join(', ');
  exchange.responseHeaders.allow = allowed;
  return new PlatformError('METHOD_NOT_ALLOWED', `${method} is not allowed here, only ${allowed}.`);
}

function logFailure(deps: AppDeps, requestUuid: string, error: unknown): void {
  const detail = error instanceof Error ? { name: error.name, message: error.message, stack: error.stack } : { error };
  deps.log.error('request failed', { request_id: requestIdOf(requestUuid), ...detail });
}
