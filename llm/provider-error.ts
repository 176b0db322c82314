import { hasCode, isPlatformError, PlatformError } from '#core/base/errors.ts';
import { PROVIDER_NAMES } from '#core/models/providers.ts';
import type { LlmRequest } from '#core/ports/llm.ts';

/** What the errors of the AI SDK may carry; also the error events inside streams. */
interface ProviderFailure {
  readonly name?: string;
  readonly message?: string;
  readonly statusCode?: number;
  readonly responseHeaders?: Readonly<Record<string, string>>;
  readonly responseBody?: string;
}

/** Of the provider's own words. */
const MAX_DETAIL = 500;

/** LLM_RATE_LIMITED or LLM_ERROR, with the provider's own words but without any key. */
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
    // Without the provider's words: they quote the key.
    return new PlatformError('LLM_ERROR', `${subject} refused the API key (status ${status}).`, {
      hint: 'Check the key in llm_credentials, or the one among the secrets of the workspace.',
    });
  }
  if (brokeOff(error)) return new PlatformError('LLM_ERROR', `The answer of ${name} broke off.`);
  // The SDK fails to read some answers of status 200, too.
  if (status !== undefined && status >= 300) {
    return new PlatformError('LLM_ERROR', `${subject} answered with status ${status}${said}`);
  }
  if (status !== undefined || failure.name?.startsWith('AI_TypeValidation')) {
    return new PlatformError('LLM_ERROR', `The answer of ${name} could not be read${said}`);
  }
  // The SDK's own error without a status is a connection that did not come about.
  const failed = failure.name === 'AI_APICallError' ? 'could not be reached' : 'failed';
  return new PlatformError('LLM_ERROR', `${subject} ${failed}${said}`);
}

/** The connection ended before the answer did; the SDK wraps what Node says. */
const brokeOff = (error: unknown): boolean =>
  ['BROKEN_ANSWER', 'ECONNRESET', 'EPIPE'].some((code) => hasCode(error, code)) ||
  (error instanceof Error && error.cause !== undefined && brokeOff(error.cause));

/** Google calls a wrong key a bad request. */
const isKeyRefusal = ({ statusCode, responseBody = '' }: ProviderFailure): boolean =>
  statusCode === 401 ||
  statusCode === 403 ||
  (statusCode === 400 && /API[ _]KEY[ _](not )?(in)?valid/i.test(responseBody));

/** What the keys of the providers look like, also shortened with asterisks or dots. */
const KEY_FORMS = /\b(sk-|AIza)[\w*.-]{4,}/g;

function withoutKeys(text: string, apiKey: string | undefined): string {
  const clean = apiKey ? text.replaceAll(apiKey, '[key]') : text;
  return clean.replaceAll(KEY_FORMS, '[key]').trim();
}

/** In seconds: from the headers, or from where Google puts it. */
function waitTime({ responseHeaders = {}, responseBody = '' }: ProviderFailure): number | undefined {
  const given = responseHeaders['retry-after'] ?? /"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"/.exec(responseBody)?.[1];
  const seconds = Math.ceil(Number(given));
  return given !== undefined && Number.isFinite(seconds) && seconds >= 0 ? seconds : undefined;
}
