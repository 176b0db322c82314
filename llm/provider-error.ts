import { hasCode, isPlatformError, PlatformError } from '#core/base/errors.ts';
import { PROVIDER_NAMES } from '#core/models/providers.ts';
import type { LlmRequest } from '#core/ports/llm.ts';

/** Members of the AI SDK's errors, and of error events inside streams. */
interface ProviderFailure {
  readonly name?: string;
  readonly message?: string;
  readonly statusCode?: number;
  readonly responseHeaders?: Readonly<Record<string, string>>;
  readonly responseBody?: string;
}

/** Characters of the provider's own text. */
const MAX_DETAIL = 500;

/** Returns LLM_RATE_LIMITED or LLM_ERROR, with the provider's own text but without any key. */
export function toPlatformError(error: unknown, { provider, apiKey }: LlmRequest): PlatformError {
  if (isPlatformError(error)) return error;
  const failure = error as ProviderFailure;
  const name = PROVIDER_NAMES[provider];
  const subject = name.charAt(0).toUpperCase() + name.slice(1);
  const detail = withoutKeys(failure.message ?? '', apiKey).slice(0, MAX_DETAIL);
  const said = detail === '' ? '.' : `: ${detail}`;
  const status = failure.statusCode;

  if (status === 429) {
    const seconds = waitTime(failure);
    return new PlatformError(
      'LLM_RATE_LIMITED',
      `${subject} does not take more requests with this API key for now${said}`,
      seconds === undefined ? {} : { suggested_wait_time: seconds },
    );
  }
  if (isKeyRefusal(failure)) {
    // Without the provider's text, which quotes the key.
    return new PlatformError('LLM_ERROR', `${subject} refused the API key (status ${status}).`, {
      hint: 'Check the key in llm_credentials, or the one among the secrets of the workspace.',
    });
  }
  if (brokeOff(error)) return new PlatformError('LLM_ERROR', `The answer of ${name} broke off.`);
  // The SDK also fails on answers of status 200 that it cannot read.
  if (status !== undefined && status >= 300) {
    return new PlatformError('LLM_ERROR', `${subject} answered with status ${status}${said}`);
  }
  if (status !== undefined || failure.name?.startsWith('AI_TypeValidation')) {
    return new PlatformError('LLM_ERROR', `The answer of ${name} could not be read${said}`);
  }
  // The SDK's own error without a status means that no connection was made.
  const failed = failure.name === 'AI_APICallError' ? 'could not be reached' : 'failed';
  return new PlatformError('LLM_ERROR', `${subject} ${failed}${said}`);
}

/** Whether the connection ended before the answer did. The SDK wraps Node's error. */
const brokeOff = (error: unknown): boolean =>
  ['BROKEN_ANSWER', 'ECONNRESET', 'EPIPE'].some((code) => hasCode(error, code)) ||
  (error instanceof Error && error.cause !== undefined && brokeOff(error.cause));

/** Google answers 400 for a wrong key. */
const isKeyRefusal = ({ statusCode, responseBody = '' }: ProviderFailure): boolean =>
  statusCode === 401 ||
  statusCode === 403 ||
  (statusCode === 400 && /API[ _]KEY[ _](not )?(in)?valid/i.test(responseBody));

/** Forms of the providers' keys, also shortened with asterisks or dots. */
const KEY_FORMS = /\b(sk-|AIza)[\w*.-]{4,}/g;

function withoutKeys(text: string, apiKey: string | undefined): string {
  const clean = apiKey ? text.replaceAll(apiKey, '[key]') : text;
  return clean.replaceAll(KEY_FORMS, '[key]').trim();
}

/** Seconds to wait: from `retry-after`, or from Google's error body. */
function waitTime({ responseHeaders = {}, responseBody = '' }: ProviderFailure): number | undefined {
  const given = responseHeaders['retry-after'] ?? /"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"/.exec(responseBody)?.[1];
  const seconds = Math.ceil(Number(given));
  return given !== undefined && Number.isFinite(seconds) && seconds >= 0 ? seconds : undefined;
}
