/**
 * A request about the workspace of the key in the environment. Undefined members of `query` are left out.
 *
 * @param {string} method
 * @param {readonly string[]} path
 * @param {{
 *   query?: Record<string, unknown>,
 *   body?: unknown,
 *   headers?: Record<string, string>,
 *   makeError?: import('./http.js').Request['makeError'],
 *   retries?: number,
 * }} [options] Without `retries`, only what may be sent twice is sent again.
 * @returns {Promise<any>}
 */
export declare function request(method: string, path: readonly string[], { query, body, headers, makeError, retries }?: {
    query?: Record<string, unknown>;
    body?: unknown;
    headers?: Record<string, string>;
    makeError?: import('./http.js').Request['makeError'];
    retries?: number;
}): Promise<any>;
