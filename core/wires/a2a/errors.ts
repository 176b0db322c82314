import { type ErrorCode, isPlatformError, isRetryable, PlatformError } from '#core/base/errors.ts';
import { errorEnvelope } from '#core/http/envelope.ts';
import type { HttpResponse } from '#core/http/message.ts';

/** The errors of A2A 1.0, section 5.4 of its specification: code of JSON-RPC, status of gRPC, and reason. */
const KINDS = {
  TaskNotFound: [-32001, 'NOT_FOUND', 'TASK_NOT_FOUND'],
  TaskNotCancelable: [-32002, 'FAILED_PRECONDITION', 'TASK_NOT_CANCELABLE'],
  PushNotificationNotSupported: [-32003, 'FAILED_PRECONDITION', 'PUSH_NOTIFICATION_NOT_SUPPORTED'],
  UnsupportedOperation: [-32004, 'FAILED_PRECONDITION', 'UNSUPPORTED_OPERATION'],
  ContentTypeNotSupported: [-32005, 'INVALID_ARGUMENT', 'CONTENT_TYPE_NOT_SUPPORTED'],
  VersionNotSupported: [-32009, 'FAILED_PRECONDITION', 'VERSION_NOT_SUPPORTED'],
  ParseError: [-32700, 'INVALID_ARGUMENT', 'PARSE_ERROR'],
  InvalidRequest: [-32600, 'INVALID_ARGUMENT', 'INVALID_REQUEST'],
  MethodNotFound: [-32601, 'UNIMPLEMENTED', 'METHOD_NOT_FOUND'],
  InvalidParams: [-32602, 'INVALID_ARGUMENT', 'INVALID_PARAMS'],
} as const;
type Kind = keyof typeof KINDS;

/** An error of the protocol. Over HTTP it is 404 for a task that is not found, and 400 for every other. */
export class A2aError extends PlatformError {
  readonly kind: Kind;

  constructor(kind: Kind, message: string) {
    super(kind === 'TaskNotFound' ? 'NOT_FOUND' : 'INVALID_INPUT', message);
    this.kind = kind;
  }
}

const isA2aError = (error: unknown): error is A2aError => isPlatformError(error) && 'kind' in error;

/** Throws InvalidParams for a member of a request. */
export function refuse(member: string, message: string): never {
  throw new A2aError('InvalidParams', `${member}: ${message}`);
}

/** Codes of ours that have a meaning of their own in gRPC. Others are INVALID_ARGUMENT, or INTERNAL from 500 up. */
const STATUSES: { readonly [code in ErrorCode]?: string } = {
  UNAUTHORIZED: 'UNAUTHENTICATED',
  FORBIDDEN: 'PERMISSION_DENIED',
  NOT_FOUND: 'NOT_FOUND',
  RATE_LIMITED: 'RESOURCE_EXHAUSTED',
  CONFLICT: 'ABORTED',
  TIMEOUT: 'DEADLINE_EXCEEDED',
};

interface Shown {
  readonly httpStatus: number;
  readonly code: number;
  readonly status: string;
  readonly message: string;
  readonly details: readonly object[];
}

function shown(error: unknown, requestUuid: string): Shown {
  const { status: httpStatus, body } = errorEnvelope(error, requestUuid);
  const { code, message, hint } = body.error;
  const [rpcCode, status, reason] = isA2aError(error)
    ? KINDS[error.kind]
    : [
        httpStatus >= 500 ? -32603 : -32602,
        STATUSES[code] ?? (httpStatus >= 500 ? 'INTERNAL' : 'INVALID_ARGUMENT'),
        code,
      ];
  const info = {
    '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
    reason,
    domain: isA2aError(error) ? 'a2a-protocol.org' : 'platform',
    metadata: {
      request_id: body.metadata.request_id,
      is_retryable: String(body.error.is_retryable ?? isRetryable(code)),
    },
  };
  return {
    httpStatus,
    code: rpcCode,
    status,
    message: hint === undefined ? message : `${message} ${hint}`,
    details: [info],
  };
}

/** Returns an error as a member `error` of JSON-RPC. */
export function rpcError(error: unknown, requestUuid: string) {
  const { code, message, details } = shown(error, requestUuid);
  return { code, message, data: details };
}

const OF_HTTP: readonly ErrorCode[] = [
  'UNAUTHORIZED',
  'FORBIDDEN',
  'NOT_FOUND',
  'RATE_LIMITED',
  'UNSUPPORTED_TYPE',
  'DOCUMENT_TOO_LARGE',
];

/** Whether a client must see an error in the status of HTTP, also by JSON-RPC: it is not one of a method. */
export const isOfHttp = (error: unknown): boolean =>
  !isPlatformError(error) || (!isA2aError(error) && OF_HTTP.includes(error.code));

/** Returns an error as the body of an answer, in the form of `google.rpc.Status`. */
export function httpError(error: unknown, requestUuid: string) {
  const { httpStatus, status, message, details } = shown(error, requestUuid);
  return { error: { code: httpStatus, status, message, details } };
}

/** Builds the answer to a failed request. */
export function a2aErrorResponse(
  error: unknown,
  requestUuid: string,
  headers: Readonly<Record<string, string>>,
): HttpResponse {
  const { status, body } = errorEnvelope(error, requestUuid);
  const wait = body.error.suggested_wait_time;
  return {
    status,
    headers: {
      ...headers,
      ...(wait !== undefined && { 'retry-after': String(wait) }),
      'content-type': 'application/json',
    },
    body: JSON.stringify(httpError(error, requestUuid)),
  };
}
