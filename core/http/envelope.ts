import type { Config } from '#core/base/config.ts';
import { type ErrorCode, httpStatusOf, isRetryable, shownError } from '#core/base/errors.ts';
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

type ErrorBody = { readonly error: { readonly code: ErrorCode } };
type Addresses = Pick<Config, 'baseUrl' | 'dashboardUrl'>;

/**
 * Adds `docs_url`, the page of the error's code, to an envelope that is about to be sent. Stored envelopes have none:
 * the address of the platform may change. The documentation is served where the dashboard is.
 */
export function withDocsUrl<Body extends ErrorBody>(body: Body, { baseUrl, dashboardUrl }: Partial<Addresses>): Body {
  if (baseUrl === undefined || dashboardUrl === undefined) return body;
  return { ...body, error: { ...body.error, docs_url: `${baseUrl}/docs/errors/${body.error.code}` } };
}

/** Builds the response to a failed request. `addresses` of the platform: without them, it has no `docs_url`. */
export function errorResponse(
  error: unknown,
  requestUuid: string,
  headers: Readonly<Record<string, string>>,
  addresses: Partial<Addresses> = {},
): HttpResponse {
  const { status, body } = errorEnvelope(error, requestUuid);
  const wait = body.error.suggested_wait_time;
  const all = {
    ...headers,
    ...(wait !== undefined && { 'retry-after': String(wait) }),
    'content-type': 'application/json',
  };
  return { status, headers: all, body: JSON.stringify(withDocsUrl(body, addresses)) };
}
