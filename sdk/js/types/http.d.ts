import { PlatformError } from './errors.js';
export type Request = {
    method: string;
    url: string;
    headers: Record<string, string>;
    body?: string | FormData;
    /**
     * Ends the request.
     */
    signal: AbortSignal;
    makeError?: (...failure: [string, import('./errors.js').Failure]) => PlatformError;
};
/**
 * @typedef {object} Request
 * @property {string} method
 * @property {string} url
 * @property {Record<string, string>} headers
 * @property {string | FormData} [body]
 * @property {AbortSignal} signal Ends the request.
 * @property {(...failure: [string, import('./errors.js').Failure]) => PlatformError} [makeError]
 */
/**
 * The response of a success.
 *
 * @param {Request} request
 * @returns {Promise<Response>}
 */
export declare function open(request: Request): Promise<Response>;
/**
 * The parsed answer of a success, and its headers.
 *
 * @param {Request} request
 * @returns {Promise<{ body: any, headers: Headers }>}
 */
export declare function send(request: Request): Promise<{
    body: any;
    headers: Headers;
}>;
/**
 * @param {unknown} error
 * @param {Request} request
 */
export declare function asPlatformError(error: unknown, request: Request): PlatformError;
