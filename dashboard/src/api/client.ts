import OPERATIONS from 'virtual:operations';
import type { Client } from '#core/api/client.ts';
import { operationPath } from '#core/api/operation-path.ts';
import { ApiError } from '../api-error.ts';
import { API_URL } from '../base.ts';

export type OperationName = keyof Client;
export type ArgumentsOf<Name extends OperationName> = Parameters<Client[Name]>[0];
export type AnswerOf<Name extends OperationName> = Awaited<ReturnType<Client[Name]>>;

interface LooseArguments {
  readonly params?: Record<string, string>;
  readonly query?: Record<string, unknown>;
  readonly headers?: Record<string, string>;
  readonly body?: unknown;
}

export interface SendOptions {
  /** Workspace id for operations whose path has none. */
  readonly workspaceId?: string;
  readonly signal?: AbortSignal;
  /** Whether the request is sent even if the page is closed. @default false */
  readonly keepalive?: boolean;
}

/** Returns the URL of an operation, including its query. */
export const addressOf = (name: OperationName, { params, query }: LooseArguments = {}): string =>
  API_URL + operationPath(OPERATIONS[name]![1], params, query);

/**
 * Sends an operation and returns its response, whatever its status. Throws ApiError with status 0 if there is no
 * response.
 */
export async function sendOperation<Name extends OperationName>(
  name: Name,
  args: ArgumentsOf<Name>,
  { workspaceId, signal, keepalive }: SendOptions = {},
): Promise<Response> {
  const { headers, body } = args as LooseArguments;
  const isBytes = body instanceof FormData || body instanceof Blob || body instanceof Uint8Array;
  try {
    return await fetch(addressOf(name, args as LooseArguments), {
      method: OPERATIONS[name]![0],
      headers: {
        // Without this header the session cookie only allows reads.
        'x-platform-client': 'dashboard',
        ...(workspaceId && { 'x-workspace-id': workspaceId }),
        ...(body !== undefined && !isBytes && { 'content-type': 'application/json' }),
        ...headers,
      },
      body: body === undefined ? undefined : isBytes ? (body as BodyInit) : JSON.stringify(body),
      signal,
      keepalive,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0);
  }
}

/** Returns the result of an operation: JSON, or the response if the operation returns bytes. Throws ApiError. */
export async function call<Name extends OperationName>(
  name: Name,
  args: ArgumentsOf<Name>,
  options?: SendOptions,
): Promise<AnswerOf<Name>> {
  const response = await sendOperation(name, args, options);
  const isJson = response.headers.get('content-type')?.includes('json') ?? false;
  if (!response.ok) {
    const body = isJson ? await response.json().catch(() => undefined) : undefined;
    throw new ApiError(response.status, body, response.headers);
  }
  return (isJson ? await response.json() : response) as AnswerOf<Name>;
}
