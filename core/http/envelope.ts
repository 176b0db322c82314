import { httpStatusOf, isRetryable, shownError } from '#core/base/errors.ts';
import type { HttpResponse } from './message.ts';
import { requestIdOf } from './request-id.ts';

/**
 * Builds the error envelope (`docs/interface/errors.md#error-envelope`). The text of unexpected errors is only logged,
 * with the request id.
 */
export function errorEnvelope(error: unknown, requestUuid: string) {
  const { code, message, extra } = shownError(
    error,
    'Something went wrong on our side. Try again; if it persists, report the request id.',
  );
  return {
    status: httpStatusOf(code),
    body: {
      error: { code, message, is_retryable: isRetryable(code), ...extra },
      metadata: { request_id: requestIdOf(requestUuid) },
    },
  };
}

export function errorResponse(
  error: unknown,
  requestUuid: string,
  headers: Readonly<Record<string, string>>,
): HttpResponse {
  const { status, body } = errorEnvelope(error, requestUuid);
  const wait = body.error.suggested_wait_time;
  const all = {
    ...headers,
    ...(wait !== undefined && { 'retry-after': String(wait) }),
    'content-type': 'application/json',
  };
  return { status, headers: all, body: JSON.stringify(body) };
}
