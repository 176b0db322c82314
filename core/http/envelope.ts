import { isPlatformError, isRetryable, PlatformError, statusOf } from '../errors.ts';
import { requestIdOf } from './route.ts';

/** The error envelope of `spec.md` *Errors*. Text of unexpected errors stays inside; the log has it under the request id. */
export function errorResponse(
  error: unknown,
  requestUuid: string,
  headers: Readonly<Record<string, string>>,
): Response {
  const shown = isPlatformError(error)
    ? error
    : new PlatformError(
        'INTERNAL_ERROR',
        'Something went wrong on our side. Try again; if it stays, report the request id.',
      );
  const body = {
    error: { code: shown.code, message: shown.message, is_retryable: isRetryable(shown.code), ...shown.extra },
    metadata: { request_id: requestIdOf(requestUuid) },
  };
  return new Response(JSON.stringify(body), {
    status: statusOf(shown.code),
    headers: { ...headers, 'content-type': 'application/json' },
  });
}
