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
 * }} [options]
 * @returns {Promise<any>}
 */
export declare function request(method: string, path: readonly string[], { query, body, headers, makeError }?: {
    query?: Record<string, unknown>;
    body?: unknown;
    headers?: Record<string, string>;
    makeError?: import('./http.js').Request['makeError'];
}): Promise<any>;
