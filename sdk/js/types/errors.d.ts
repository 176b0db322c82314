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
    /** One of the platform's codes, or `NETWORK_ERROR`, or `HTTP_<status>` where something else answered. */
    code: string;
    /** Of the response; null where none came. */
    status: number | null;
    isRetryable: boolean;
    /** Seconds. */
    suggestedWaitTime: number | null;
    hint: string | null;
    requestId: string | null;
    /** The parsed JSON, or the text. */
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
/** The deadline has passed, or no answer came in time. */
export declare class TimeoutExceededError extends PlatformError {
}
/** The agent to call is one of those that wait for this one. */
export declare class CallChainCycleError extends PlatformError {
}
/** The chain of calls may not get any longer. */
export declare class MaxHopsExceededError extends PlatformError {
}
/** An agent that was run on this machine failed. */
export declare class LocalExecutionError extends PlatformError {
    exitCode: number | null;
    /**
     * @param {string} message
     * @param {number | null} exitCode null where it could not be started
     */
    constructor(message: string, exitCode: number | null);
}
export declare class StorageError extends PlatformError {
}
export declare class StorageNotFoundError extends StorageError {
}
/** The document has another version than the one expected. */
export declare class StorageConflictError extends StorageError {
}
/** The document is too large, or the workspace's storage is full. */
export declare class StorageQuotaError extends StorageError {
}
/**
 * What an answer that is no success tells: the error envelope, or whatever came instead.
 *
 * @param {number | null} status null where the status came before the failure
 * @param {unknown} body
 * @returns {[message: string, failure: Failure]}
 */
export declare function describeFailure(status: number | null, body: unknown): [message: string, failure: Failure];
