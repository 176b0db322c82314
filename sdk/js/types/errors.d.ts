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
export type Failure = {
    code: string;
    status?: number | null;
    isRetryable?: boolean;
    suggestedWaitTime?: number | null;
    hint?: string | null;
    docsUrl?: string | null;
    requestId?: string | null;
    runId?: string | null;
    responseBody?: unknown;
};
/** A request that the platform refused or that did not reach it. */
export declare class PlatformError extends Error {
    /** One of the platform's codes, or `NETWORK_ERROR`, or `HTTP_<status>` if something other than the platform answered. */
    code: string;
    /** HTTP status; null without a response. */
    status: number | null;
    isRetryable: boolean;
    /** Seconds. */
    suggestedWaitTime: number | null;
    hint: string | null;
    /** Page of the documentation about this error. */
    docsUrl: string | null;
    requestId: string | null;
    /** The run that failed; null if none began. */
    runId: string | null;
    /** Parsed JSON, or text. */
    responseBody: {} | null;
    /**
     * @param {string} message
     * @param {Failure} failure
     */
    constructor(message: string, failure: Failure);
}
/** The request has an invalid member, or a body of the wrong type or size. */
export declare class InvalidRequestError extends PlatformError {
}
/** There is no key, or the key is wrong or revoked. */
export declare class AuthenticationError extends PlatformError {
}
/** The key may not do this. */
export declare class PermissionDeniedError extends PlatformError {
}
export declare class NotFoundError extends PlatformError {
}
/** The request contradicts the current state, or its idempotency key belongs to another request. */
export declare class ConflictError extends PlatformError {
}
/** A limit was reached. `suggestedWaitTime` says how long to wait. */
export declare class RateLimitError extends PlatformError {
}
/** The agent ran and failed, or its run was cancelled. `runId` names the run. */
export declare class RunFailedError extends PlatformError {
}
/** The platform failed. */
export declare class ServerError extends PlatformError {
}
/** The platform could not be reached, or the connection was lost. */
export declare class NetworkError extends PlatformError {
}
/** A call of another agent that failed. */
export declare class DependencyCallError extends PlatformError {
    get statusCode(): number | null;
}
/** A program does its steps in another order than an earlier start of the same run. */
export declare class StepOrderError extends PlatformError {
}
/** The deadline has passed, or the answer did not come in time. */
export declare class TimeoutExceededError extends PlatformError {
}
/** The called agent is already in the chain of calls, waiting for this one. */
export declare class CallChainCycleError extends PlatformError {
}
/** The chain of calls has reached its maximum length. */
export declare class MaxHopsExceededError extends PlatformError {
}
/** An agent on this machine failed. */
export declare class LocalExecutionError extends PlatformError {
    exitCode: number | null;
    /**
     * @param {string} message
     * @param {number | null} exitCode null if it could not be started
     */
    constructor(message: string, exitCode: number | null);
}
export declare class StorageError extends PlatformError {
}
export declare class StorageNotFoundError extends StorageError {
}
/** The document's version is not the expected one. */
export declare class StorageConflictError extends StorageError {
}
/** The document is too large, or the workspace's storage is full. */
export declare class StorageQuotaError extends StorageError {
}
/** @param {string} code */
export declare const statusOf: (code: string) => number;
/**
 * The error of the class that fits.
 *
 * @param {string} message
 * @param {Failure} failure
 * @returns {PlatformError}
 */
export declare function errorOf(message: string, failure: Failure): PlatformError;
/**
 * The message and details of an error response, whether or not it has the error envelope.
 *
 * @param {number | null} status null if the failure came after the status
 * @param {unknown} body
 * @param {Headers} [headers]
 * @returns {[message: string, failure: Failure]}
 */
export declare function describeFailure(status: number | null, body: unknown, headers?: Headers): [message: string, failure: Failure];
