import { type ErrorCode, isRetryable } from '#core/base/errors.ts';
import { MAX_BODY_MB } from './functions.ts';

interface GatewayError {
  readonly code: ErrorCode;
  readonly message: string;
  /** Seconds after which the request may be retried. */
  readonly waitSeconds?: number;
  /** Whether the request may have been carried out. Clients retry only retryable requests. @default false */
  readonly mayHaveRun?: boolean;
}

/** API Gateway's own errors, by response type, with the platform's codes and texts (`docs/interface/errors.md#api-gateway`). */
export const GATEWAY_ERRORS: Readonly<Record<string, GatewayError>> = {
  // API Gateway's name for an unknown path or method.
  MISSING_AUTHENTICATION_TOKEN: {
    code: 'NOT_FOUND',
    message: 'There is nothing at this path; see GET /openapi.json.',
  },
  // Denied by the resource policy.
  ACCESS_DENIED: {
    code: 'FORBIDDEN',
    message:
      'The API does not accept requests from your address: ask the operator of the platform from where it can be reached.',
  },
  REQUEST_TOO_LARGE: {
    code: 'DOCUMENT_TOO_LARGE',
    message: `The request body is larger than ${MAX_BODY_MB} MB, the maximum of a request: upload larger files as POST /uploads describes.`,
  },
  THROTTLED: { code: 'RATE_LIMITED', message: 'Too many requests: wait a second and try again.', waitSeconds: 1 },
  // Lambda refused to start the function: the account's limit of concurrent executions is reached.
  INTEGRATION_FAILURE: {
    code: 'RATE_LIMITED',
    message: 'The platform is too busy for this request at the moment: wait two seconds and try again.',
    waitSeconds: 2,
  },
  INTEGRATION_TIMEOUT: {
    code: 'TIMEOUT',
    message: 'The platform did not respond in time. The request may have been carried out: check before you retry it.',
    mayHaveRun: true,
  },
  DEFAULT_4XX: { code: 'INVALID_INPUT', message: 'The request is not valid HTTP for this API.' },
  // Also the response if a function started, and ended without a response.
  DEFAULT_5XX: {
    code: 'INTERNAL_ERROR',
    message:
      'Something went wrong on our side. The request may have been carried out: check before you retry it. If the problem persists, report the request id.',
    mayHaveRun: true,
  },
};

/** Returns the envelope of `core/http/envelope.ts`. `requestId` may be a variable of the gateway. */
export function gatewayErrorBody(type: string, requestId: string): string {
  const { code, message, waitSeconds, mayHaveRun = false } = GATEWAY_ERRORS[type]!;
  return JSON.stringify({
    error: {
      code,
      message,
      is_retryable: isRetryable(code) && !mayHaveRun,
      ...(waitSeconds !== undefined && { suggested_wait_time: waitSeconds }),
    },
    metadata: { request_id: `req_${requestId}` },
  });
}
