import { PlatformError } from './errors.js';
export declare const DEFAULT_RETRIES = 2;
export type Limits = {
    /**
     * Ends the request.
     */
    signal: AbortSignal;
    /**
     * The reason of the signal when the time is over.
     */
    late: unknown;
    /**
     * When its time is over, in epoch milliseconds.
     */
    end: number;
};
export type Request = {
    method: string;
    url: string;
    headers: Record<string, string>;
    body?: string | FormData;
    limits: Limits;
    /**
     * Only for requests that may be sent twice.
     */
    retries?: number;
    makeError?: (...failure: [string, import('./errors.js').Failure]) => PlatformError;
};
/**
 * @typedef {object} Limits
 * @property {AbortSignal} signal Ends the request.
 * @property {unknown} late The reason of the signal when the time is over.
 * @property {number} end When its time is over, in epoch milliseconds.
 */
/**
 * @typedef {object} Request
 * @property {string} method
 * @property {string} url
 * @property {Record<string, string>} headers
 * @property {string | FormData} [body]
 * @property {Limits} limits
 * @property {number} [retries] Only for requests that may be sent twice.
 * @property {(...failure: [string, import('./errors.js').Failure]) => PlatformError} [makeError]
 */
/**
 * Limits of a request: its time, and signals of the program.
 *
 * @param {number} timeout Milliseconds.
 * @param {readonly (AbortSignal | undefined)[]} signals
 * @returns {Limits}
 */
export declare function limit(timeout: number, ...signals: readonly (AbortSignal | undefined)[]): Limits;
/**
 * The response of a success.
 *
 * @param {Request} request
 * @returns {Promise<Response>}
 */
export declare const open: (request: Request) => Promise<Response>;
/**
 * The parsed answer of a success, its headers and status.
 *
 * @param {Request} request
 * @returns {Promise<{ body: any, headers: Headers, status: number }>}
 */
export declare const send: (request: Request) => Promise<{
    body: any;
    headers: Headers;
    status: number;
}>;
/**
 * Sends a request until `use` succeeds with its response, or no retry is left.
 *
 * @template T
 * @param {Request} request
 * @param {(response: Response) => Promise<T>} use
 * @returns {Promise<T>}
 */
export declare function retrying<T>(request: Request, use: (response: Response) => Promise<T>): Promise<T>;
/**
 * Waits before the next attempt. Throws the error if the request may not be sent again. A run that began is never run a
 * second time: only what was refused before, or whose answer was lost, is sent again.
 *
 * @param {unknown} error
 * @param {number} attempt
 * @param {Request} request
 */
export declare function waitForRetry(error: unknown, attempt: number, request: Request): Promise<void>;
/**
 * @param {number} ms
 * @param {Request} request
 */
export declare const pause: (ms: number, request: Request) => Promise<undefined>;
/**
 * The program's own reason if it aborted the request; a PlatformError otherwise.
 *
 * @param {unknown} error
 * @param {Request} request
 */
export declare function asPlatformError(error: unknown, { method, url, limits: { signal, late }, makeError }: Request): any;
/**
 * The pieces of a body. Ends the connection if there are too many bytes.
 *
 * @param {Response} response
 * @param {number} [max]
 */
export declare function piecesOf(response: Response, max?: number): AsyncGenerator<Uint8Array<ArrayBufferLike>, void, unknown>;
