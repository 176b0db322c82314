import type * as z from 'zod';
import type { Caller, KeyScope } from '#core/base/caller.ts';
import type { ErrorCode } from '#core/base/errors.ts';
import type { HttpRequest } from './message.ts';

/**
 * One row per operation of the API, as data. The router, the handler types, the AWS stacks, the OpenAPI document, the
 * typed client and two test suites read these rows, so each fact about a route is written once.
 */
export interface Route {
  /** Handler name, client method and OpenAPI operation; unique in the table. */
  readonly operationId: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Parameters as `{name}`. The caller must be a member of the workspace that `{workspace_id}` names. */
  readonly path: `/${string}`;
  readonly summary: string;
  /** The deployed function that serves the route. Routes that need the same privileges share one. */
  readonly fn: FunctionName;
  /**
   * `key`: a bearer API key. `optional`: the same, or nothing: the handler gets the caller if there is a key. `public`: nothing. `webhook`: the secret in the path. `instance`: the bearer token of a
   * service's revision, for the platform's own runners; it opens one service and nothing else, so it has no scope.
   * `signature`: a provider's, over the body; a wrong one is INVALID_INPUT. `operator`: the bearer key of the platform's
   * operator, which opens nothing else. `sign-in`: what the body or the query holds; every attempt counts for its address. The handlers of the last
   * five check it themselves.
   */
  readonly auth: 'key' | 'optional' | 'public' | 'webhook' | 'instance' | 'signature' | 'operator' | 'sign-in';
  /** Whether agents may call it with their service keys. @default false */
  readonly agents?: boolean;
  /**
   * The part of the workspace that the route opens to agents. An agent of another workspace needs a grant of it. Only with
   * `agents`. @default - none
   */
  readonly scope?: 'messages' | 'tasks';
  /**
   * What a user's key must be allowed to do (`docs/interface/authentication.md#scopes`).
   *
   * @default - `read` for a GET and for a row with {@link changes}, `run` for other rows with `agents`, `manage` for the rest
   */
  readonly keyScope?: Exclude<KeyScope, 'read'>;
  /**
   * What a row with another method than GET changes, if that is nothing, or no more than how the caller itself is signed in. A
   * key with the scope `read` may use it. `test/routes/read-keys.test.ts` watches what such rows store.
   *
   * @default - things of the workspace or of the user
   */
  readonly changes?: 'nothing' | 'own sign-in';
  /** Whether the row is about the user and not about one workspace: keys of one workspace are refused. @default false */
  readonly ofUser?: boolean;
  /** Minimum role in the workspace. @default member */
  readonly role?: 'member' | 'owner';
  /** A `POST`, `PUT` or `PATCH` that is served also while there is no space for anything new. @default false */
  readonly storesNothing?: boolean;
  /** Whether the route calls an agent: its admission then sets the rate limit headers. @default false */
  readonly admits?: boolean;
  /** What the audit log keeps of a request (`docs/interface/audit.md`). @default - the path's parameters only */
  readonly audit?: Audit;
  readonly request?: {
    readonly params?: z.ZodObject;
    readonly query?: z.ZodObject;
    readonly headers?: z.ZodObject;
    /** A JSON body of this shape, or bytes that the handler reads itself. */
    readonly body?: z.ZodType | RawBody;
  };
  /** Status -> JSON shape, or bytes. Members that the shape does not name are removed from the answer. */
  readonly response: { readonly [status: number]: z.ZodType | RawBody };
  /** Media types that the handler may answer instead of JSON, as {@link RawAnswer}. */
  readonly alsoRaw?: readonly string[];
  /** Codes beyond {@link commonErrors}. */
  readonly errors?: readonly ErrorCode[];
  /**
   * Whether it may take longer than 29 s or answer bytes, which a buffered API Gateway integration cannot. All routes of a
   * function must agree.
   */
  readonly stream?: boolean;
}

/** Only members that can hold neither a secret nor content. */
export interface Audit {
  /** Members of the query and the body. */
  readonly request?: readonly string[];
  /** Member of the entry -> path of the member in the answer. */
  readonly response?: Readonly<Record<string, string>>;
  /** Whether the handler writes the entry, because it changes another workspace than the caller's. @default false */
  readonly byHandler?: boolean;
}

/** The row of an operation, for handlers that write their own audit entries. */
export const rowOf = <Rows extends readonly Route[]>(rows: Rows, operation: Rows[number]['operationId']): Route =>
  rows.find(({ operationId }) => operationId === operation)!;

export const FUNCTION_NAMES = [
  'meta',
  'agents',
  'billing',
  'calls',
  'catalog',
  'downloads',
  'events',
  'keys',
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

/** A body that is not (only) JSON, or that the handler checks itself, with its media types. */
export interface RawBody {
  readonly raw: readonly string[];
  /** Media type -> shape of its JSON, for the OpenAPI document alone. @default - any JSON value */
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

/** Keeps the literal types of the rows, from which the handler and client types are made. */
export const defineRoutes = <const Rows extends readonly Route[]>(rows: Rows): Rows => rows;

/** Requests for health and the OpenAPI document touch no data, so they do not count against an address. */
export const isCountedByAddress = (route: Route): boolean => route.fn !== 'meta';

/** Whether the route is refused while there is no space for anything new. */
export const stores = ({ method, storesNothing = false }: Route): boolean =>
  method !== 'GET' && method !== 'DELETE' && !storesNothing;

/** What a row needs of a key. */
export type KeyNeeds = Pick<Route, 'method' | 'agents' | 'keyScope' | 'changes' | 'ofUser'>;

/** What a user's key must be allowed to do. */
export const keyScopeOf = ({ keyScope, method, agents, changes }: KeyNeeds): KeyScope =>
  keyScope ?? (method === 'GET' || changes !== undefined ? 'read' : agents ? 'run' : 'manage');

/** Codes that every route with these features can answer. */
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

/** Names of the `{parameters}` of a path, in order. */
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
  /** A fresh UUID for this request; {@link requestIdOf} shows it. A call's run has this id. */
  readonly requestUuid: string;
  /** The client's, if the host knows it. */
  readonly address?: string;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
  /** Headers that the response gets, also if it is an error. */
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
         * What the body of this row depends on alone, and never on the caller. While it lives, and if it is frozen, the text of
         * the body is made once; a getter `body` is called once, too.
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
