import type * as z from 'zod';
import type { Caller } from '#core/base/caller.ts';
import type { ErrorCode } from '#core/base/errors.ts';

/**
 * One row per operation of the API, as data: the router, the handler types, the AWS stacks, the OpenAPI document, the
 * typed client and two test suites all read these rows, so nothing about a route is written down twice.
 */
export interface Route {
  /** Handler name, client method and OpenAPI operation; unique in the table. */
  readonly operationId: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Parameters as `{name}`. `{workspace_id}` makes that workspace the one the caller must be a member of. */
  readonly path: `/${string}`;
  readonly summary: string;
  /** The deployed function that serves it: routes that need the same privileges share one. */
  readonly fn: FunctionName;
  /** `key`: a bearer API key. `public`: nobody. `webhook`: the secret in the path. */
  readonly auth: 'key' | 'public' | 'webhook';
  /** Whether agents may do it, with their service keys. @default false */
  readonly agents?: boolean;
  /** The least role in the workspace. @default member */
  readonly role?: 'member' | 'owner';
  /** Whether it calls an agent: its own admission then says what the caller has left. @default false */
  readonly admits?: boolean;
  readonly request?: {
    readonly params?: z.ZodObject;
    readonly query?: z.ZodObject;
    readonly headers?: z.ZodObject;
    /** A JSON body of this shape, or bytes that the handler reads itself. */
    readonly body?: z.ZodType | RawBody;
  };
  /** Status -> JSON shape, or bytes. Members that the shape does not name never leave. */
  readonly response: { readonly [status: number]: z.ZodType | RawBody };
  /** Media types that the handler may answer instead of JSON, as {@link RawAnswer}. */
  readonly alsoRaw?: readonly string[];
  /** Codes beyond those that every route of its kind can answer, see {@link commonErrors}. */
  readonly errors?: readonly ErrorCode[];
  /** May take longer than 29 s or answer bytes: what a buffered API Gateway integration cannot. One `fn`, one kind. */
  readonly stream?: boolean;
}

export const FUNCTION_NAMES = [
  'meta',
  'agents',
  'billing',
  'calls',
  'catalog',
  'downloads',
  'keys',
  'runs',
  'schedules',
  'secrets',
  'storage',
  'tasks',
  'uploads',
  'usage',
  'workspaces',
] as const;
export type FunctionName = (typeof FUNCTION_NAMES)[number];

/** A body that is not (only) JSON: the media types it may have. */
export interface RawBody {
  readonly raw: readonly string[];
}
export const raw = (...mediaTypes: string[]): RawBody => ({ raw: mediaTypes });
export const isRaw = (body: z.ZodType | RawBody): body is RawBody => 'raw' in body;

/** An answer that the handler made itself: a stream of events, or bytes that were kept. */
export interface RawAnswer {
  readonly contentType: string;
  readonly content: Uint8Array | AsyncIterable<Uint8Array>;
}

/** Keeps the literal types of the rows, which the handler and client types are made of. */
export const defineRoutes = <const Rows extends readonly Route[]>(rows: Rows): Rows => rows;

/** Health and the API's document touch no data: whoever asks for them without a key is not counted. */
export const isCountedByAddress = (route: Route): boolean => route.fn !== 'meta';

/** Codes that any route with these features can answer. */
export function commonErrors(route: Route): ErrorCode[] {
  const codes: ErrorCode[] = ['INTERNAL_ERROR'];
  if (isCountedByAddress(route)) codes.push('RATE_LIMITED');
  if (route.auth === 'key') codes.push('UNAUTHORIZED', 'FORBIDDEN');
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

/** What a handler is given. */
export interface Incoming<R extends Route = Route> {
  readonly params: { readonly [Name in PathNames<R['path']>]: string };
  readonly query: Part<R, 'query'>;
  readonly headers: Part<R, 'headers'>;
  /** The parsed JSON body; `undefined` for raw bodies. */
  readonly body: Body<R>;
  /** Who calls, in which workspace, with which role. */
  readonly caller: R['auth'] extends 'key' ? Caller : undefined;
  /** A fresh UUID for this request; {@link requestIdOf} shows it. A call's run has this id. */
  readonly requestUuid: string;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
  /** Headers of the response, whether it will be an answer or an error. */
  readonly responseHeaders: Record<string, string>;
  /** For raw bodies. */
  readonly request: Request;
}

type ResponseBody<Schema> = Schema extends z.ZodType ? z.input<Schema> : Uint8Array | AsyncIterable<Uint8Array>;

/** One of the statuses of the row, with its body. */
export type Outgoing<R extends Route> =
  | {
      [Status in keyof R['response'] & number]: {
        readonly status: Status;
        readonly body: ResponseBody<R['response'][Status]>;
        readonly headers?: Readonly<Record<string, string>>;
      };
    }[keyof R['response'] & number]
  | (R extends { readonly alsoRaw: readonly string[] }
      ? { readonly status: number; readonly raw: RawAnswer; readonly headers?: Readonly<Record<string, string>> }
      : never);

/** One handler per row: a missing handler or a wrong body does not compile. */
export type Handlers<Rows extends readonly Route[]> = {
  [R in Rows[number] as R['operationId']]: (incoming: Incoming<R>) => Promise<Outgoing<R>>;
};
