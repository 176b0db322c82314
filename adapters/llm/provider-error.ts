import { hasCode, isPlatformError, type PlatformError } from '#core/base/errors.ts';
import { contextWindowExceeded } from '#core/models/context-window.ts';
import { answererOf, keyHint } from '#core/models/providers.ts';
import { LlmFailure, type LlmFailureKind, type LlmRequest } from '#core/ports/llm.ts';
import { outputLimitIn } from './output-limit.ts';
import { MAX_ANSWER_BYTES } from './send.ts';

/** Members of the AI SDK's errors, and of error events inside streams. */
interface ProviderFailure {
  readonly name?: string;
  readonly message?: string;
  readonly statusCode?: number;
  readonly responseHeaders?: Readonly<Record<string, string>>;
  readonly responseBody?: string;
}

/** Maximum characters quoted from the provider's own text. */
const MAX_DETAIL = 500;

/**
 * Returns an {@link LlmFailure} with the provider's own text, without any key.
 *
 * @param isSchemaNew Whether the provider has not accepted the request's schema yet, and a weaker form of it is left.
 */
export function toPlatformError(error: unknown, request: LlmRequest, { isSchemaNew = false } = {}): PlatformError {
  if (isPlatformError(error)) return error;
  const { apiKey, maxOutputTokens: sent, messages } = request;
  const failure = error as ProviderFailure;
  const name = answererOf(request);
  const subject = name.charAt(0).toUpperCase() + name.slice(1);
  const detail = withoutKeys(failure.message || messageIn(failure.responseBody), apiKey).slice(0, MAX_DETAIL);
  const said = detail === '' ? '.' : `: ${detail}`;
  const status = failure.statusCode;
  if (isPlatformRefused(error, request)) return platformRefused(status);
  if (isCausedBy(error, 'OUTBOUND_REFUSED')) {
    return new LlmFailure('refused', `${subject} is at an address that is not of the public internet.`);
  }
  const kind = kindOf(error);
  const payer = request.transport?.via === 'bedrock' ? 'from this platform' : 'with this API key';
  const waiting = { retryAfterMs: retryAfterMs(failure) };
  // Checked first: some servers report an exceeded context window although only input and output together exceed it.
  const maxOutputTokens = status === 400 ? outputLimitIn(textOf(failure), sent) : undefined;
  if (maxOutputTokens !== undefined) {
    return new LlmFailure('refused', `${subject} answered with status 400${said}`, { maxOutputTokens });
  }
  if (isSchemaNew && kind === 'refused' && (status === 400 || status === 422) && SCHEMA.test(textOf(failure))) {
    return new LlmFailure('refused', `${subject} answered with status ${status}${said}`, { isSchemaRefusal: true });
  }

  switch (kind) {
    case 'quota':
      // No retry time: the provider sends the one of its per-minute limit, after which the request would fail again.
      return new LlmFailure(kind, `${subject} takes no more requests ${payer}: its quota is used up${said}`);
    case 'key':
      // Omits the provider's text, which quotes the key.
      return new LlmFailure(kind, `${subject} refused the API key (status ${status}).`, {
        hint: keyHint(request.provider),
      });
    case 'overflow':
      return contextWindowExceeded(request, said);
    default:
  }
  if (status === 429) {
    const message = `${subject} does not take more requests ${payer} for now${said}`;
    return new LlmFailure(kind, message, { ...waiting, isRateLimit: true });
  }
  if (isCausedBy(error, 'LONG_ANSWER')) {
    return new LlmFailure(kind, `The answer of ${name} is longer than ${MAX_ANSWER_BYTES / 1024 ** 2} MB.`);
  }
  if (brokeOff(error)) return new LlmFailure(kind, `The answer of ${name} broke off.`);
  // The SDK also fails on unreadable responses with status 200.
  if (status !== undefined && status >= 300) {
    const refusesOnly = status === 400 && kind === 'refused' && messages.some(({ role }) => role === 'only');
    const refusesSettings = status === 400 && kind === 'refused' && hasSettings(request) && NAMES_SETTING.test(detail);
    const about = { refusesOnly, refusesSettings };
    return new LlmFailure(kind, `${subject} answered with status ${status}${said}`, { ...waiting, ...about });
  }
  if (kind === 'unreadable') return new LlmFailure(kind, `The answer of ${name} could not be read${said}`);
  // An SDK error without a status means that the connection failed.
  const isUnreached = failure.name === 'AI_APICallError' || hasCode(error, 'NO_CONNECTION');
  const failed = isUnreached ? 'could not be reached' : 'failed';
  return new LlmFailure(kind, `${subject} ${failed}${said}`);
}

const NAMES_SETTING = /temperature|effort|thinking|reasoning|seed|stop|parallel/i;

const hasSettings = ({ effort, temperature, stop, seed, parallelToolCalls, thoughts }: LlmRequest): boolean =>
  [effort, temperature, stop, seed, parallelToolCalls, thoughts].some((setting) => setting !== undefined);

/** Whether Amazon Bedrock rejects the platform's own credentials, or there are none. */
export const isPlatformRefused = (error: unknown, { transport }: LlmRequest): boolean =>
  transport?.via === 'bedrock' &&
  ([401, 403].includes((error as ProviderFailure).statusCode!) ||
    (error as ProviderFailure).name === 'CredentialsProviderError');

/** Omits the provider's text, which names accounts and roles of the operator. */
function platformRefused(status: number | undefined): LlmFailure {
  const why = status === undefined ? 'there are no AWS credentials here' : `status ${status}`;
  return new LlmFailure('refused', `Amazon Bedrock does not let this platform use the model (${why}).`, {
    hint: 'The operator of the platform finds the reason in its log.',
  });
}

/** Returns the message of an error in a format unknown to the SDK, such as AWS's. */
export function messageIn(body: string | undefined): string {
  try {
    const { message, error } = JSON.parse(body ?? '{}');
    const text = message ?? error?.message ?? error;
    return typeof text === 'string' ? text : '';
  } catch {
    return '';
  }
}

/** Classifies a failure. The header `x-should-retry` of Anthropic and OpenAI takes precedence over the status. */
function kindOf(error: unknown): LlmFailureKind {
  const failure = error as ProviderFailure;
  const { statusCode: status, responseHeaders = {} } = failure;
  const text = textOf(failure);
  if (responseHeaders['x-should-retry'] === 'true') return 'transient';
  if (status === 402 || ((status === 429 || status === 400) && QUOTA.test(text))) return 'quota';
  if (isKeyRefusal(status, text)) return 'key';
  // An error event reports a failure after the provider has accepted the request. It may have no status.
  const isEvent = !(error instanceof Error);
  const isSaid = isEvent || (status !== undefined && status >= 400);
  if (status === 413 || (isSaid && OVERFLOW.test(text))) return 'overflow';
  if (responseHeaders['x-should-retry'] === 'false') return 'refused';
  if (isCausedBy(error, 'LONG_ANSWER')) return 'refused';
  if (brokeOff(error)) return 'transient';
  if (status === undefined) {
    if (isUnreadable(failure)) return 'unreadable';
    return isEvent || TRANSIENT_CODES.some((code) => isCausedBy(error, code)) ? 'transient' : 'refused';
  }
  if (status < 300) return 'unreadable';
  return [408, 409, 429].includes(status) || status >= 500 ? 'transient' : 'refused';
}

/**
 * Exhausted quotas that are not refilled within a minute: credit, a spending or daily limit, or a single request above
 * the per-minute limit.
 */
const QUOTA =
  /insufficient_quota|credit_balance_exhausted|credit balance is too low|enforced_spend_limit_reached|billing_error|PerDay|reached your specified API usage limits|Request too large for|tokens per day/i;

/**
 * Each provider's message for a conversation that exceeds the context window; then those of vLLM, llama.cpp, Ollama and
 * Bedrock.
 */
const OVERFLOW =
  /prompt is too long|exceed context limit|context_length_exceeded|exceeds the context window|exceeds the maximum number of tokens|request_too_large|maximum context length|exceed_context_size|exceeds the available context|context length exceeded|Input is too long for requested model/i;

/** Matches errors about a schema, its grammar, or the request member that holds it. */
const SCHEMA = /schema|grammar|response_?format|output_config|structured output|\bstrict\b/i;

/** Google answers 400 for a wrong key. */
const isKeyRefusal = (status: number | undefined, text: string): boolean =>
  status === 401 || status === 403 || (status === 400 && /API[ _]KEY[ _](not )?(in)?valid/i.test(text));

/** Node's network errors. Certificate errors are excluded, because a retry fails again. */
const TRANSIENT_CODES = [
  'ECONNREFUSED',
  'ETIMEDOUT',
  'EAI_AGAIN',
  'ENETUNREACH',
  'EHOSTUNREACH',
  'ENETDOWN',
  'ECONNABORTED',
];

/** Whether the connection ended before the answer did. */
const brokeOff = (error: unknown): boolean =>
  ['BROKEN_ANSWER', 'ECONNRESET', 'EPIPE'].some((code) => isCausedBy(error, code));

/** The SDK wraps Node's errors as causes. */
const isCausedBy = (error: unknown, code: string): boolean =>
  hasCode(error, code) || (error instanceof Error && error.cause !== undefined && isCausedBy(error.cause, code));

/** Whether a stream had no events, or an event that is not JSON or not in the provider's format. */
const isUnreadable = (failure: ProviderFailure): boolean =>
  hasCode(failure, 'NO_ANSWER') ||
  hasCode(failure, 'UNREADABLE') ||
  ['Z_DATA_ERROR', 'Z_BUF_ERROR'].some((code) => isCausedBy(failure, code)) ||
  /^AI_(TypeValidation|JSONParse|InvalidResponseData|EmptyResponseBody|NoContentGenerated)/.test(failure.name ?? '');

/** Returns the provider's own text from a response or an event. */
const textOf = (failure: ProviderFailure): string =>
  failure instanceof Error
    ? `${failure.message} ${(failure as ProviderFailure).responseBody ?? ''}`
    : JSON.stringify(failure);

/** Matches the providers' keys, even if shortened with asterisks or dots. */
const KEY_FORMS = /\b(sk-|AIza)[\w*.-]{4,}/g;

function withoutKeys(text: string, apiKey: string | undefined): string {
  const clean = apiKey ? text.replaceAll(apiKey, '[key]') : text;
  return clean.replaceAll(KEY_FORMS, '[key]').trim();
}

/**
 * Returns the retry delay in milliseconds: from `retry-after-ms`, from `retry-after` in seconds or as a date (RFC 9110,
 * section 10.2.3), or from the `RetryInfo` of Google's error body. `undefined` if it is absent or invalid.
 */
function retryAfterMs(failure: ProviderFailure): number | undefined {
  const { 'retry-after-ms': ms, 'retry-after': after, date } = failure.responseHeaders ?? {};
  if (isNumber(ms)) return Number(ms);
  if (isNumber(after)) return Number(after) * 1000;
  // Relative to the provider's own clock, because ours may differ.
  const until = Date.parse(after ?? '') - Date.parse(date ?? '');
  if (Number.isFinite(until)) return Math.max(0, until);
  const delay = /"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"/.exec(textOf(failure))?.[1];
  return delay === undefined ? undefined : Number(delay) * 1000;
}

const isNumber = (text: string | undefined): text is string => text !== undefined && /^\d+(\.\d+)?$/.test(text.trim());
