/**
 * @typedef {object} Failure
 * @property {string} code
 * @property {number | null} [status]
 * @property {boolean} [isRetryable]
 * @property {number | null} [suggestedWaitTime]
 * @property {string | null} [hint]
 * @property {string | null} [requestId]
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
    this.requestId = failure.requestId ?? null;
    /** Parsed JSON, or text. */
    this.responseBody = failure.responseBody ?? null;
  }
}

/** A call of another agent that failed. */
export class DependencyCallError extends PlatformError {
  get statusCode() {
    return this.status;
  }
}

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

/**
 * The message and details of an error response, whether or not it has the error envelope.
 *
 * @param {number | null} status null if the failure came after the status
 * @param {unknown} body
 * @returns {[message: string, failure: Failure]}
 */
export function describeFailure(status, body) {
  const { error, metadata } = /** @type {any} */ (typeof body === 'object' && body !== null ? body : {});
  if (typeof error?.message !== 'string') {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    return [
      `The answer is no error of the platform: ${text.slice(0, 500)}`,
      { code: `HTTP_${status}`, status, responseBody: body },
    ];
  }
  return [
    error.message,
    {
      code: error.code ?? `HTTP_${status}`,
      status,
      isRetryable: error.is_retryable === true,
      suggestedWaitTime: error.suggested_wait_time,
      hint: error.hint,
      requestId: metadata?.request_id,
      responseBody: body,
    },
  ];
}
