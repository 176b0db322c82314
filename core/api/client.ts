import type * as z from 'zod';
import type { Route } from '#core/http/route.ts';
import { operationPath } from './operation-path.ts';
import { routes } from './routes.ts';

type AnyRoute = (typeof routes)[number];
type Named<Name extends AnyRoute['operationId']> = Extract<AnyRoute, { operationId: Name }>;

type PathNames<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | PathNames<Rest>
  : never;
type Optional<T> = [T] extends [never] ? unknown : T;
type QueryOf<R extends Route> =
  NonNullable<R['request']> extends { readonly query: infer S extends z.ZodType } ? { query?: z.input<S> } : unknown;
type HeadersOf<R extends Route> = { headers?: Record<string, string> } & (R extends never ? never : unknown);
type BodyOf<R extends Route> =
  NonNullable<R['request']> extends { readonly body: infer B }
    ? B extends z.ZodType
      ? { body: z.input<B> }
      : { body?: unknown }
    : unknown;
type ParamsOf<R extends Route> = [PathNames<R['path']>] extends [never]
  ? unknown
  : { params: { [Name in PathNames<R['path']>]: string } };

/** Arguments of an operation. A raw body may be a `FormData`, bytes, or a value that is sent as JSON. */
export type Arguments<R extends Route> = Optional<ParamsOf<R> & QueryOf<R> & HeadersOf<R> & BodyOf<R>>;
/** JSON of a successful response, or the `Response` if the row answers bytes. */
export type Answer<R extends Route> = {
  [Status in keyof R['response']]: R['response'][Status] extends z.ZodType ? z.output<R['response'][Status]> : Response;
}[keyof R['response']];

/** A client with one method per operation of the route table. Methods throw {@link ApiError} for error responses. */
export type Client = {
  [Name in AnyRoute['operationId']]: (args: Arguments<Named<Name>>) => Promise<Answer<Named<Name>>>;
};

export class ApiError extends Error {
  readonly code: string;
  readonly status: number;
  /** The complete `error` member. */
  readonly detail: Readonly<Record<string, unknown>>;
  readonly requestId: string | undefined;

  constructor(status: number, body: unknown) {
    const { error = {}, metadata = {} } = (body ?? {}) as Record<string, Record<string, unknown> | undefined>;
    super(String(error.message ?? `HTTP ${status}`));
    this.name = 'ApiError';
    this.status = status;
    this.code = String(error.code ?? 'UNKNOWN');
    this.detail = error;
    this.requestId = metadata.request_id as string | undefined;
  }
}

interface LooseArguments {
  readonly params?: Record<string, string>;
  readonly query?: Record<string, unknown>;
  readonly headers?: Record<string, string>;
  readonly body?: unknown;
}

export interface ClientOptions {
  /** Base URL of the platform. */
  readonly baseUrl: string;
  /** An API key. */
  readonly key?: string;
  /** Sent as `X-Workspace-Id`. */
  readonly workspaceId?: string;
  /** @default - the global one */
  readonly fetch?: typeof fetch;
}

/** Creates a client of one platform. */
export function createClient(options: ClientOptions): Client {
  const methods = (routes as readonly Route[]).map((route) => [
    route.operationId,
    (args: LooseArguments = {}) => send(options, route, args),
  ]);
  return Object.fromEntries(methods) as Client;
}

async function send(
  { baseUrl, key, workspaceId, fetch = globalThis.fetch }: ClientOptions,
  route: Route,
  { params, query, headers, body }: LooseArguments,
): Promise<unknown> {
  const url = new URL(baseUrl.replace(/\/$/, '') + operationPath(route.path, params, query));
  const isBytes = body instanceof FormData || body instanceof Uint8Array;
  const response = await fetch(url, {
    method: route.method,
    headers: {
      ...(key && { authorization: `Bearer ${key}` }),
      ...(workspaceId && { 'x-workspace-id': workspaceId }),
      ...(body !== undefined && !isBytes && { 'content-type': 'application/json' }),
      ...headers,
    },
    body: body === undefined ? undefined : isBytes ? (body as FormData) : JSON.stringify(body),
  });
  // Lines of JSON (`application/x-ndjson`) are none.
  const isJson = /[/+]json\b/.test(response.headers.get('content-type') ?? '');
  if (!response.ok)
    throw new ApiError(response.status, isJson ? await response.json().catch(() => undefined) : undefined);
  return isJson ? response.json() : response;
}
