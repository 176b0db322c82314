import { type ErrorCode, isRetryable, PlatformError } from '#core/base/errors.ts';
import { errorEnvelope } from '#core/http/envelope.ts';
import type { HttpResponse } from '#core/http/message.ts';

/** Codes and types that OpenAI's clients know, for those of ours. Others keep their name in lower case. */
const KNOWN: { readonly [code in ErrorCode]?: readonly [type: string, code: string] } = {
  UNAUTHORIZED: ['invalid_request_error', 'invalid_api_key'],
  FORBIDDEN: ['permission_error', 'forbidden'],
  RATE_LIMITED: ['rate_limit_error', 'rate_limit_exceeded'],
  LLM_RATE_LIMITED: ['rate_limit_error', 'rate_limit_exceeded'],
  BUDGET_EXCEEDED: ['insufficient_quota', 'insufficient_quota'],
  INSUFFICIENT_CREDITS: ['insufficient_quota', 'insufficient_quota'],
};

/** An error about one parameter of a request, under the name that OpenAI's clients know it by. */
export class OpenAiError extends PlatformError {
  readonly param: string | null;
  readonly openAiCode: string | undefined;

  constructor(code: ErrorCode, message: string, { param, openAiCode }: { param?: string; openAiCode?: string }) {
    super(code, message);
    this.param = param ?? null;
    this.openAiCode = openAiCode;
  }
}

/** Throws INVALID_INPUT for a parameter. */
export function refuse(param: string, message: string): never {
  throw new OpenAiError('INVALID_INPUT', `${param}: ${message}`, { param });
}

/** What OpenAI's clients get of an error. */
export interface ErrorObject {
  readonly message: string;
  readonly type: string;
  readonly param: string | null;
  readonly code: string;
}

/** Returns an error as OpenAI's clients read it: what we say besides, the hint, is part of the message. */
export function errorObject(error: unknown, requestUuid: string): ErrorObject {
  const { status, body } = errorEnvelope(error, requestUuid);
  const { code, message, hint } = body.error;
  const [type, name] = KNOWN[code] ?? [status >= 500 ? 'server_error' : 'invalid_request_error', code.toLowerCase()];
  const { param = null, openAiCode = name } = error as Partial<OpenAiError>;
  return { message: hint === undefined ? message : `${message} ${hint}`, type, param, code: openAiCode };
}

/**
 * Builds the answer to a failed request in OpenAI's shape. Its clients repeat requests by their status unless a header says
 * whether to: a run whose program failed would run three times.
 */
export function openAiErrorResponse(
  error: unknown,
  requestUuid: string,
  headers: Readonly<Record<string, string>>,
): HttpResponse {
  const { status, body } = errorEnvelope(error, requestUuid);
  const { code, suggested_wait_time: wait, is_retryable: mayRetry = isRetryable(code) } = body.error;
  const all = {
    ...headers,
    ...(wait !== undefined && { 'retry-after': String(wait) }),
    'x-should-retry': String(mayRetry),
    'content-type': 'application/json',
  };
  return { status, headers: all, body: JSON.stringify({ error: errorObject(error, requestUuid) }) };
}
