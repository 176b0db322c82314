import { hasCode, isPlatformError, type PlatformError } from '#core/base/errors.ts';
import { contextWindowExceeded } from '#core/models/context-window.ts';
import { answererOf } from '#core/models/providers.ts';
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

/** Characters of the provider's own text. */
const MAX_DETAIL = 500;

/**
 * Returns an {@link LlmFailure} with the provider's own text but without any key.
 *
 * @param isSchemaNew Whether the request has a schema that the provider has not taken yet, and can have it in a weaker form.
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
  // Before the kinds: some servers speak of the window when only input and output together are longer than it.
  const maxOutputTokens = status === 400 ? outputLimitIn(textOf(failure), sent) : undefined;
  if (maxOutputTokens !== undefined) {
    return new LlmFailure('refused', `${subject} answered with status 400${said}`, { maxOutputTokens });
  }
  if (isSchemaNew && kind === 'refused' && (status === 400 || status === 422) && SCHEMA.test(textOf(failure))) {
    return new LlmFailure('refused', `${subject} answered with status ${status}${said}`, { isSchemaRefusal: true });
  }

  switch (kind) {
    case 'quota':
      // A time to wait would be until the next request of a minute, which fails as well.
      return new LlmFailure(kind, `${subject} takes no more requests ${payer}: its quota is used up${said}`);
    case 'key':
      // Without the provider's text, which quotes the key.
      return new LlmFailure(kind, `${subject} refused the API key (status ${status}).`, {
        hint: 'Check the key in llm_credentials, or the one among the secrets of the workspace.',
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
  // The SDK also fails on answers of status 200 that it cannot read.
  if (status !== undefined && status >= 300) {
    const refusesOnly = status === 400 && kind === 'refused' && messages.some(({ role }) => role === 'only');
    const refusesSettings = status === 400 && kind === 'refused' && hasSettings(request) && NAMES_SETTING.test(detail);
    const about = { refusesOnly, refusesSettings };
    return new LlmFailure(kind, `${subject} answered with status ${status}${said}`, { ...waiting, ...about });
  }
  if (kind === 'unreadable') return new LlmFailure(kind, `The answer of ${name} could not be read${said}`);
  // The SDK's own error without a status means that no connection was made.
  const isUnreached = failure.name === 'AI_APICallError' || hasCode(error, 'NO_CONNECTION');
  const failed = isUnreached ? 'could not be reached' : 'failed';
  return new LlmFailure(kind, `${subject} ${failed}${said}`);
}

const NAMES_SETTING = /temperature|effort|thinking|reasoning|seed|stop|parallel/i;

const hasSettings = ({ effort, temperature, stop, seed, parallelToolCalls, thoughts }: LlmRequest): boolean =>
  [effort, temperature, stop, seed, parallelToolCalls, thoughts].some((setting) => setting !== undefined);

/** Whether Amazon Bedrock refuses the platform's own credentials, or there are none. */
export const isPlatformRefused = (error: unknown, { transport }: LlmRequest): boolean =>
  transport?.via === 'bedrock' &&
  ([401, 403].includes((error as ProviderFailure).statusCode!) ||
    (error as ProviderFailure).name === 'CredentialsProviderError');

/** Without the provider's text, which names accounts and roles of the operator. */
function platformRefused(status: number | undefined): LlmFailure {
  const why = status === undefined ? 'there are no AWS credentials here' : `status ${status}`;
  return new LlmFailure('refused', `Amazon Bedrock does not let this platform use the model (${why}).`, {
    hint: 'The operator of the platform finds the reason in its log.',
  });
}

/** The text of an error in a form that the SDK does not know, such as that of AWS. */
export function messageIn(body: string | undefined): string {
  try {
    const { message, error } = JSON.parse(body ?? '{}');
    const text = message ?? error?.message ?? error;
    return typeof text === 'string' ? text : '';
  } catch {
    return '';
  }
}

/** What a failure allows. The header `x-should-retry` of Anthropic and OpenAI wins over the status. */
function kindOf(error: unknown): LlmFailureKind {
  const failure = error as ProviderFailure;
  const { statusCode: status, responseHeaders = {} } = failure;
  const text = textOf(failure);
  if (responseHeaders['x-should-retry'] === 'true') return 'transient';
  if (status === 402 || ((status === 429 || status === 400) && QUOTA.test(text))) return 'quota';
  if (isKeyRefusal(status, text)) return 'key';
  // An event says what happened at the provider after it had taken the request. It need not have a status.
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
 * What is used up is not there again in a minute: credit, a limit of spending or of a day, or a request over the limit of
 * a minute by itself.
 */
const QUOTA =
  /insufficient_quota|credit_balance_exhausted|credit balance is too low|enforced_spend_limit_reached|billing_error|PerDay|reached your specified API usage limits|Request too large for|tokens per day/i;

/** Each provider's words for a conversation that is longer than its model reads; then those of vLLM, llama.cpp, Ollama and Bedrock. */
const OVERFLOW =
  /prompt is too long|exceed context limit|context_length_exceeded|exceeds the context window|exceeds the maximum number of tokens|request_too_large|maximum context length|exceed_context_size|exceeds the available context|context length exceeded|Input is too long for requested model/i;

/** Words about a schema, the grammar that is made of it, or the member of a request that has it. */
const SCHEMA = /schema|grammar|response_?format|output_config|structured output|\bstrict\b/i;

/** Google answers 400 for a wrong key. */
const isKeyRefusal = (status: number | undefined, text: string): boolean =>
  status === 401 || status === 403 || (status === 400 && /API[ _]KEY[ _](not )?(in)?valid/i.test(text));

/** Of Node: the network, not the other side's certificate, which fails again. */
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

/** The SDK wraps Node's errors. */
const isCausedBy = (error: unknown, code: string): boolean =>
  hasCode(error, code) || (error instanceof Error && error.cause !== undefined && isCausedBy(error.cause, code));

/** A stream without events, or with one that is no JSON or not of the provider's form. */
const isUnreadable = (failure: ProviderFailure): boolean =>
  hasCode(failure, 'NO_ANSWER') ||
  hasCode(failure, 'UNREADABLE') ||
  /^AI_(TypeValidation|JSONParse|InvalidResponseData|EmptyResponseBody|NoContentGenerated)/.test(failure.name ?? '');

/** What the provider said, in an answer or in an event. */
const textOf = (failure: ProviderFailure): string =>
  failure instanceof Error
    ? `${failure.message} ${(failure as ProviderFailure).responseBody ?? ''}`
    : JSON.stringify(failure);

/** Forms of the providers' keys, also shortened with asterisks or dots. */
const KEY_FORMS = /\b(sk-|AIza)[\w*.-]{4,}/g;

function withoutKeys(text: string, apiKey: string | undefined): string {
  const clean = apiKey ? text.replaceAll(apiKey, '[key]') : text;
  return clean.replaceAll(KEY_FORMS, '[key]').trim();
}

/**
 * Milliseconds to wait: from `retry-after-ms`, from `retry-after` in seconds or as a date (RFC 9110, section 10.2.3), or
 * from the `RetryInfo` of Google's error body. `undefined` if none is given or it makes no sense.
 */
function retryAfterMs(failure: ProviderFailure): number | undefined {
  const { 'retry-after-ms': ms, 'retry-after': after, date } = failure.responseHeaders ?? {};
  if (isNumber(ms)) return Number(ms);
  if (isNumber(after)) return Number(after) * 1000;
  // The provider's own clock began to count: ours may differ.
  const until = Date.parse(after ?? '') - Date.parse(date ?? '');
  if (Number.isFinite(until)) return Math.max(0, until);
  const delay = /"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"/.exec(textOf(failure))?.[1];
  return delay === undefined ? undefined : Number(delay) * 1000;
}

const isNumber = (text: string | undefined): text is string => text !== undefined && /^\d+(\.\d+)?$/.test(text.trim());
