import { randomUUID } from 'node:crypto';
import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { requestIdOf } from '#core/http/request-id.ts';

/** Typical time until a restarted app listens or a slot is free. */
const RETRY_AFTER_SECONDS = 2;

const CODES = {
  401: 'UNAUTHORIZED',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
  405: 'METHOD_NOT_ALLOWED',
  408: 'TIMEOUT',
  429: 'RATE_LIMITED',
  502: 'SERVICE_ERROR',
  503: 'SERVICE_UNAVAILABLE',
  504: 'TIMEOUT',
} as const;

/** Error response of the platform in place of a service's app (`docs/interface/service-instances.md#gateway`). */
export class GatewayError extends Error {
  readonly status: keyof typeof CODES;
  /** Additional response headers. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: keyof typeof CODES, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.name = 'GatewayError';
    this.status = status;
    this.headers = headers;
  }
}

function parts(error: unknown) {
  const {
    status,
    message,
    headers: more,
  } = error instanceof GatewayError
    ? error
    : new GatewayError(502, 'The app closed the connection before it responded, or its response is not HTTP.');
  const isRetryable = status === 429 || status === 503;
  const body = JSON.stringify({
    error: { code: CODES[status], message, is_retryable: isRetryable },
    metadata: { request_id: requestIdOf(randomUUID()) },
  });
  const headers = [
    ...['content-type', 'application/json', 'content-length', String(Buffer.byteLength(body))],
    ...(isRetryable ? ['retry-after', String(RETRY_AFTER_SECONDS)] : []),
    ...Object.entries(more).flat(),
    ...['connection', 'close'],
  ];
  return { status, headers, body };
}

/** Responds with the error. A response that has started is aborted instead. */
export function answerWith(response: ServerResponse, error: unknown): void {
  if (response.headersSent || response.destroyed) return void response.destroy();
  const { status, headers, body } = parts(error);
  response.writeHead(status, headers).end(body);
}

/** Responds with the error on a connection that was to be upgraded. */
export function endWith(socket: Duplex, error: unknown): void {
  if (!socket.writable) return void socket.destroy();
  const { status, headers, body } = parts(error);
  socket.end(headOf(status, STATUS_CODES[status], headers) + body);
}

/** Returns the status line and headers of a response. `headers`: alternating names and values. */
export function headOf(status: number, text: string | undefined, headers: readonly string[]): string {
  const lines = headers.flatMap((name, index) => (index % 2 === 0 ? [`${name}: ${headers[index + 1]}`] : []));
  return [`HTTP/1.1 ${status} ${text ?? ''}`, ...lines, '', ''].join('\r\n');
}
