import type * as z from 'zod';
import type { Caller, KeyScope } from '#core/base/caller.ts';
import type { ErrorCode } from '#core/base/errors.ts';
import type { BodyLimit } from './body.ts';
import type { HttpRequest } from './message.ts';

/**
 * An operation of the API, as data. The router, the handler types, the AWS stacks, the OpenAPI document, the
 * typed client and two test suites read these rows, so each fact about a route is written once.
 */
export interface Route {
  /** Handler name, client method and OpenAPI operation; unique in the table. */
  readonly operationId: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Parameters as `{name}`. The caller must be a member of the workspace that `{workspace_id}` names. */
  readonly path: `/${string}`;
  readonly summary: string;
  /** Deployed function that serves the route. Routes that need the same privileges share one. */
  readonly fn: FunctionName;
  /**
   * Authentication of the request:
   * - `key`: a bearer API key
   * - `optional`: a bearer API key or nothing; with a key, the handler gets the caller
   * - `public`: nothing
   * - `webhook`: the secret in the path
   * - `instance`: the bearer token of a service revision, for the platform's own runners; it gives access to one
   * service only, so it has no scope
   * - `signature`: a provider's signature of the body; a wrong one is INVALID_INPUT
   * - `operator`: the bearer key of the platform's operator, which is valid for these routes only
   * - `sign-in`: credentials in the body or the query; every attempt counts against its address
   *
   * The handlers of the last five check the credentials themselves.
   */
  readonly auth: 'key' | 'optional' | 'public' | 'webhook' | 'instance' | 'signature' | 'operator' | 'sign-in';
  /** Whether agents may call it with their service keys. @default false */
  readonly agents?: boolean;
  /**
   * Set for a row that accepts the access tokens of signed-in clients, if they were issued for the resource of its path
   * (`docs/interface/client-sign-in.md`). Its answers 401 tell clients where to sign in. Only for `key` and `optional`.
   *
   * @default - such tokens are refused
   */
  readonly clientTokens?: true;
  /**
   * The part of the workspace that the route gives agents access to. An agent of another workspace needs a grant of it.
   * Only with `agents`. @default - none
   */
  readonly scope?: 'messages' | 'tasks';
  /**
   * Scope that a user's key needs (`docs/interface/authentication.md#scopes`).
   *
   * @default - `read` for a GET and for a row with {@link changes}, `run` for other rows with `agents`, `manage` for
   * the rest
   */
  readonly keyScope?: Exclude<KeyScope, 'read'>;
  /** Whether publishing needs the row: only such rows serve keys with the scope `publish`. @default false */
  readonly forPublishing?: true;
  /**
   * Set for a row with another method than GET that changes nothing, or only the sign-in of the caller itself. A
   * key with the scope `read` may use it. `test/routes/read-keys.test.ts` checks what such rows store.
   *
   * @default - the row changes data of the workspace or of the user
   */
  readonly changes?: 'nothing' | 'own sign-in';
  /** Whether the row concerns the user and not one workspace: keys of one workspace are refused. @default false */
  readonly ofUser?: boolean;
  /** Minimum role in the workspace. @default member */
  readonly role?: 'member' | 'owner';
  /** Whether a `POST`, `PUT` or `PATCH` is served even while there is no space for new data. @default false */
  readonly storesNothing?: boolean;
  /** Maximum size of a JSON body. @default 2 MB */
  readonly maxBody?: BodyLimit;
  /** Whether the route calls an agent: its admission then sets the rate limit headers. @default false */
  readonly admits?: boolean;
  /** What the audit log records of a request (`docs/interface/audit.md`). @default - the path's parameters only */
  readonly audit?: Audit;
  readonly request?: {
    readonly params?: z.ZodObject;
    readonly query?: z.ZodObject;
    readonly headers?: z.ZodObject;
    /** A JSON body of this shape, or bytes that the handler reads itself. */
    readonly body?: z.ZodType | RawBody;
  };
  /** Status -> JSON shape, or bytes. Members that are not in the shape are removed from the answer. */
  readonly response: { readonly [status: number]: z.ZodType | RawBody };
  /** Media types that the handler may answer with instead of JSON, as {@link RawAnswer}. */
  readonly alsoRaw?: readonly string[];
  /** Error codes in addition to {@link commonErrors}. */
  readonly errors?: readonly ErrorCode[];
  /**
   * Whether the route may take longer than 29 s or answer with bytes, which a buffered API Gateway integration cannot.
   * All routes of a function must agree.
   */
  readonly stream?: boolean;
}

/** What the audit log records. List only members that can hold neither a secret nor content. */
export interface Audit {
  /** Recorded members of the query and the body. */
  readonly request?: readonly string[];
  /** Member of the entry -> path of the member in the answer. */
  readonly response?: Readonly<Record<string, string>>;
  /** Whether the handler writes the entry, because it changes another workspace than the caller's. @default false */
  readonly byHandler?: boolean;
}

/** Returns the row of an operation, for handlers that write their own audit entries. */
export const rowOf = <Rows extends readonly Route[]>(rows: Rows, operation: Rows[number]['operationId']): Route =>
  rows.find(({ operationId }) => operationId === operation)!;

export const FUNCTION_NAMES = [
  'meta',
  'a2a',
  'agents',
  'billing',
  'calls',
  'catalog',
  'downloads',
  'events',
  'keys',
  'mcp',
  'runs',
  'schedules',
  'secrets',
  'service-instances',
  'services',
  'storage',
  'tasks',
  'uploads',
  'usage',
  'workspaces',
] as const;
export type FunctionName = (typeof FUNCTION_NAMES)[number];

/** A body with these media types that is not (only) JSON, or that the handler checks itself. */
export interface RawBody {
  readonly raw: readonly string[];
  /** Media type -> shape of its JSON, only for the OpenAPI document. @default - any JSON value */
  readonly shapes?: Readonly<Record<string, z.ZodType>>;
  /** Whether a request may have no body. @default false */
  readonly optional?: boolean;
}
export const raw = (...mediaTypes: string[]): RawBody => ({ raw: mediaTypes });
export const isRaw = (body: z.ZodType | RawBody): body is RawBody => 'raw' in body;

/** An answer that the handler encodes itself: a stream of events, or stored bytes. */
export interface RawAnswer {
  readonly contentType: string;
  readonly content: Uint8Array | AsyncIterable<Uint8Array>;
}

/** Keeps the literal types of the rows, from which the handler and client types are derived. */
export const defineRoutes = <const Rows extends readonly Route[]>(rows: Rows): Rows => rows;

/** Requests for health and the OpenAPI document read no data, so they do not count against an address. */
export const isCountedByAddress = (route: Route): boolean => route.fn !== 'meta';

/** Whether the route is refused while there is no space for new data. */
export const stores = ({ method, storesNothing = false }: Route): boolean =>
  method !== 'GET' && method !== 'DELETE' && !storesNothing;

/** Members of a row that decide which keys may use it. */
export type KeyNeeds = Pick<
  Route,
  'method' | 'agents' | 'keyScope' | 'changes' | 'ofUser' | 'clientTokens' | 'forPublishing'
>;

/** Returns the scope that a user's key needs. */
export const keyScopeOf = ({ keyScope, method, agents, changes }: KeyNeeds): KeyScope =>
  keyScope ?? (method === 'GET' || changes !== undefined ? 'read' : agents ? 'run' : 'manage');

/** Returns the error codes that every route with these properties can answer with. */
export function commonErrors(route: Route): ErrorCode[] {
  const codes: ErrorCode[] = ['INTERNAL_ERROR'];
  if (isCountedByAddress(route)) codes.push('RATE_LIMITED');
  if (route.auth === 'key' || route.auth === 'optional') codes.push('UNAUTHORIZED', 'FORBIDDEN');
  if (route.auth === 'instance') codes.push('UNAUTHORIZED');
  if (route.auth === 'operator') codes.push('UNAUTHORIZED', 'FORBIDDEN');
  const { params, query, headers, body } = route.request ?? {};
  if (params || query || headers || body) codes.push('INVALID_INPUT');
  if (body) codes.push('DOCUMENT_TOO_LARGE', 'UNSUPPORTED_TYPE');
  return codes;
}

/** Returns the names of the `{parameters}` of a path, in order. */
export const pathParameters = (path: string): string[] => [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]!);

type PathNames<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | PathNames<Rest>
  : never;
type Part<R extends Route, Name extends 'params' | 'query' | 'headers'> =
  NonNullable<R['request']> extends { readonly [N in Name]: infer Schema extends z.ZodType }
    ? z.output<Schema>
    : unknown;
type Body<R extends Route> =
  NonNullable<R['request']> extends { readonly body: infer Schema extends z.ZodType } ? z.output<Schema> : undefined;

/** Input of a handler. */
export interface Incoming<R extends Route = Route> {
  readonly params: { readonly [Name in PathNames<R['path']>]: string };
  readonly query: Part<R, 'query'>;
  readonly headers: Part<R, 'headers'>;
  /** The parsed JSON body; `undefined` for raw bodies. */
  readonly body: Body<R>;
  /** The caller, its workspace and its role. */
  readonly caller: R['auth'] extends 'key' ? Caller : R['auth'] extends 'optional' ? Caller | undefined : undefined;
  /** A new UUID for this request, shown as {@link requestIdOf}. A call's run has this id. */
  readonly requestUuid: string;
  /** Address of the client, if the host knows it. */
  readonly address?: string;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
  /** Headers of the response, even if it is an error. */
  readonly responseHeaders: Record<string, string>;
  /** The request itself, for raw bodies. */
  readonly request: HttpRequest;
}

type ResponseBody<Schema> = Schema extends z.ZodType ? z.input<Schema> : Uint8Array | AsyncIterable<Uint8Array>;

/** One of the statuses of the row, with its body. */
export type Outgoing<R extends Route> =
  | {
      [Status in keyof R['response'] & number]: {
        readonly status: Status;
        readonly body: ResponseBody<R['response'][Status]>;
        /**
         * Object that alone determines the body of this row, independently of the caller. If it is frozen, the text of
         * the body is cached for its lifetime; a getter `body` is called once, too.
         */
        readonly bodyOf?: object;
        readonly headers?: Readonly<Record<string, string>>;
      };
    }[keyof R['response'] & number]
  | (R extends { readonly alsoRaw: readonly string[] }
      ? { readonly status: number; readonly raw: RawAnswer; readonly headers?: Readonly<Record<string, string>> }
      : never);

/** One handler per row. A missing handler or a wrong body does not compile. */
export type Handlers<Rows extends readonly Route[]> = {
  [R in Rows[number] as R['operationId']]: (incoming: Incoming<R>) => Promise<Outgoing<R>>;
};
