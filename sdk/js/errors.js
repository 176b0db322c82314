/**
 * @typedef {object} Failure
 * @property {string} code
 * @property {number | null} [status]
 * @property {boolean} [isRetryable]
 * @property {number | null} [suggestedWaitTime]
 * @property {string | null} [hint]
 * @property {string | null} [docsUrl]
 * @property {string | null} [requestId]
 * @property {string | null} [runId]
 * @property {unknown} [responseBody]
 */

/** A request that the platform refused or that did not reach it. */
export class PlatformError extends Error {
  /**
   * @param {string} message
   * @param {Failure} failure
   */
  constructor(message, failure) {
    super(message);
    this.name = new.target.name;
    /** One of the platform's codes, or `NETWORK_ERROR`, or `HTTP_<status>` if something other than the platform answered. */
    this.code = failure.code;
    /** HTTP status; null without a response. */
    this.status = failure.status ?? null;
    this.isRetryable = failure.isRetryable ?? false;
    /** Seconds. */
    this.suggestedWaitTime = failure.suggestedWaitTime ?? null;
    this.hint = failure.hint ?? null;
    /** Page of the documentation about this error. */
    this.docsUrl = failure.docsUrl ?? null;
    this.requestId = failure.requestId ?? null;
    /** The run that failed; null if none began. */
    this.runId = failure.runId ?? null;
    /** Parsed JSON, or text. */
    this.responseBody = failure.responseBody ?? null;
  }
}

/** The request has an invalid member, or a body of the wrong type or size. */
export class InvalidRequestError extends PlatformError {}

/** There is no key, or the key is wrong or revoked. */
export class AuthenticationError extends PlatformError {}

/** The key may not do this. */
export class PermissionDeniedError extends PlatformError {}

export class NotFoundError extends PlatformError {}

/** The request contradicts the current state, or its idempotency key belongs to another request. */
export class ConflictError extends PlatformError {}

/** A limit was reached. `suggestedWaitTime` says how long to wait. */
export class RateLimitError extends PlatformError {}

/** The agent ran and failed, or its run was cancelled. `runId` names the run. */
export class RunFailedError extends PlatformError {}

/** The platform failed. */
export class ServerError extends PlatformError {}

/** The platform could not be reached, or the connection was lost. */
export class NetworkError extends PlatformError {}

/** A call of another agent that failed. */
export class DependencyCallError extends PlatformError {
  get statusCode() {
    return this.status;
  }
}

/** A program does its steps in another order than an earlier start of the same run. */
export class StepOrderError extends PlatformError {}

/** The deadline has passed, or the answer did not come in time. */
export class TimeoutExceededError extends PlatformError {}

/** The called agent is already in the chain of calls, waiting for this one. */
export class CallChainCycleError extends PlatformError {}

/** The chain of calls has reached its maximum length. */
export class MaxHopsExceededError extends PlatformError {}

/** An agent on this machine failed. */
export class LocalExecutionError extends PlatformError {
  /**
   * @param {string} message
   * @param {number | null} exitCode null if it could not be started
   */
  constructor(message, exitCode) {
    super(message, { code: 'SANDBOX_ERROR' });
    this.exitCode = exitCode;
  }
}

export class StorageError extends PlatformError {}

export class StorageNotFoundError extends StorageError {}

/** The document's version is not the expected one. */
export class StorageConflictError extends StorageError {}

/** The document is too large, or the workspace's storage is full. */
export class StorageQuotaError extends StorageError {}

/** @type {Readonly<Record<string, typeof PlatformError>>} */
const CLASS_OF_CODE = {
  NETWORK_ERROR: NetworkError,
  SANDBOX_ERROR: RunFailedError,
  SANDBOX_TIMEOUT: RunFailedError,
  TIMEOUT: RunFailedError,
  RUN_CANCELLED: RunFailedError,
  LLM_ERROR: RunFailedError,
};

/** @type {Readonly<Record<number, typeof PlatformError>>} */
const CLASS_OF_STATUS = {
  400: InvalidRequestError,
  401: AuthenticationError,
  402: PermissionDeniedError,
  403: PermissionDeniedError,
  404: NotFoundError,
  409: ConflictError,
  413: InvalidRequestError,
  415: InvalidRequestError,
  422: InvalidRequestError,
  429: RateLimitError,
};

/**
 * HTTP statuses of the platform's codes, for runs whose record says how they ended; the others have 500.
 *
 * @type {Readonly<Record<string, number>>}
 */
const STATUS_OF_CODE = {
  INVALID_INPUT: 400,
  MISSING_INPUT_FIELDS: 400,
  MISSING_SECRETS: 400,
  LLM_KEY_REQUIRED: 400,
  MAX_HOPS_TOO_LOW: 400,
  UNAUTHORIZED: 401,
  INSUFFICIENT_CREDITS: 402,
  FORBIDDEN: 403,
  DOWNLOAD_DISABLED: 403,
  PAID_AGENT_SERVER_ONLY: 403,
  AGENT_NOT_CALLABLE: 403,
  DEPENDENCY_NOT_ALLOWED: 403,
  MAX_HOPS_EXCEEDED: 403,
  MISSING_BILLING_ORG: 403,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  CONFLICT: 409,
  DEPENDENCY_CYCLE: 409,
  RUN_CANCELLED: 409,
  DOCUMENT_TOO_LARGE: 413,
  UNSUPPORTED_TYPE: 415,
  UNPROCESSABLE: 422,
  RATE_LIMITED: 429,
  LLM_RATE_LIMITED: 429,
  BUDGET_EXCEEDED: 429,
  STORAGE_QUOTA_EXCEEDED: 429,
  LLM_ERROR: 502,
  TIMEOUT: 504,
};

/** @param {string} code */
export const statusOf = (code) => STATUS_OF_CODE[code] ?? 500;

/** Statuses that a proxy answers for a while, if the body is no error of the platform. */
const PASSING_STATUSES = [429, 502, 503, 504];

/**
 * The error of the class that fits.
 *
 * @param {string} message
 * @param {Failure} failure
 * @returns {PlatformError}
 */
export function errorOf(message, failure) {
  const { code, status, runId } = failure;
  // An error within a stream, or in the record of a run, has no status, but its run began.
  const otherwise = (status ?? 0) >= 500 ? ServerError : runId ? RunFailedError : PlatformError;
  const Class = CLASS_OF_CODE[code] ?? CLASS_OF_STATUS[status ?? 0] ?? otherwise;
  return new Class(message, failure);
}

/**
 * The message and details of an error response, whether or not it has the error envelope.
 *
 * @param {number | null} status null if the failure came after the status
 * @param {unknown} body
 * @param {Headers} [headers]
 * @returns {[message: string, failure: Failure]}
 */
export function describeFailure(status, body, headers) {
  const { error, metadata } = /** @type {any} */ (typeof body === 'object' && body !== null ? body : {});
  const isEnvelope = typeof error?.message === 'string';
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return [
    isEnvelope ? error.message : `The answer is no error of the platform: ${text.slice(0, 500)}`,
    {
      code: (isEnvelope && error.code) || `HTTP_${status}`,
      status,
      isRetryable: isEnvelope ? error.is_retryable === true : PASSING_STATUSES.includes(status ?? 0),
      suggestedWaitTime: (isEnvelope ? error.suggested_wait_time : null) ?? retryAfter(headers?.get('retry-after')),
      hint: isEnvelope ? error.hint : null,
      docsUrl: isEnvelope ? error.docs_url : null,
      requestId: (isEnvelope ? metadata?.request_id : null) ?? headers?.get('x-request-id'),
      runId: headers?.get('x-run-id'),
      responseBody: body,
    },
  ];
}

/**
 * The seconds of a `Retry-After` header, which has a number or a date.
 *
 * @param {string | null | undefined} text
 */
function retryAfter(text) {
  if (!text) return null;
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? null : Math.max(0, seconds);
}
