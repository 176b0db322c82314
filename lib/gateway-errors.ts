import { type ErrorCode, isRetryable } from '#core/base/errors.ts';
import { MAX_BODY_MB } from './functions.ts';

/** API Gateway's own errors, by response type, with the platform's codes and texts. */
export const GATEWAY_ERRORS: Readonly<Record<string, { readonly code: ErrorCode; readonly message: string }>> = {
  // API Gateway's name for an unknown path or method.
  MISSING_AUTHENTICATION_TOKEN: {
    code: 'NOT_FOUND',
    message: 'There is nothing at this path; see GET /openapi.json.',
  },
  REQUEST_TOO_LARGE: {
    code: 'DOCUMENT_TOO_LARGE',
    message: `The request body is larger than ${MAX_BODY_MB} MB, the maximum of a request: upload larger files, POST /uploads answers how.`,
  },
  THROTTLED: { code: 'RATE_LIMITED', message: 'Too many requests: wait a second and try again.' },
  INTEGRATION_TIMEOUT: { code: 'TIMEOUT', message: 'The platform did not answer in time.' },
  DEFAULT_4XX: { code: 'INVALID_INPUT', message: 'The request is not valid HTTP for this API.' },
  DEFAULT_5XX: {
    code: 'INTERNAL_ERROR',
    message: 'Something went wrong on our side. Try again; if it stays, report the request id.',
  },
};

/** The envelope of `core/http/envelope.ts`. `requestId` may be a variable of the gateway. */
export function gatewayErrorBody(type: string, requestId: string): string {
  const { code, message } = GATEWAY_ERRORS[type]!;
  return JSON.stringify({
    error: { code, message, is_retryable: isRetryable(code) },
    metadata: { request_id: `req_${requestId}` },
  });
}
