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
export type Failure = {
    code: string;
    status?: number | null;
    isRetryable?: boolean;
    suggestedWaitTime?: number | null;
    hint?: string | null;
    requestId?: string | null;
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
    requestId: string | null;
    /** Parsed JSON, or text. */
    responseBody: {} | null;
    /**
     * @param {string} message
     * @param {Failure} failure
     */
    constructor(message: string, failure: Failure);
}
/** A call of another agent that failed. */
export declare class DependencyCallError extends PlatformError {
    get statusCode(): number | null;
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
/**
 * The message and details of an error response, whether or not it has the error envelope.
 *
 * @param {number | null} status null if the failure came after the status
 * @param {unknown} body
 * @returns {[message: string, failure: Failure]}
 */
export declare function describeFailure(status: number | null, body: unknown): [message: string, failure: Failure];
