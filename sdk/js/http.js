import { describeFailure, PlatformError, TimeoutExceededError } from './errors.js';

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
export async function open(request) {
  const { method, url, headers, body, signal } = request;
  try {
    // The platform never redirects: another server must not get the request.
    const response = await fetch(url, { method, headers, body, signal, redirect: 'error' });
    if (response.ok) return response;
    throw makeError(request, describeFailure(response.status, parse(await response.text())));
  } catch (error) {
    throw asPlatformError(error, request);
  }
}

/**
 * The parsed answer of a success, and its headers.
 *
 * @param {Request} request
 * @returns {Promise<{ body: any, headers: Headers }>}
 */
export async function send(request) {
  const response = await open(request);
  try {
    return { body: parse(await response.text()), headers: response.headers };
  } catch (error) {
    throw asPlatformError(error, request);
  }
}

/**
 * @param {unknown} error
 * @param {Request} request
 */
export function asPlatformError(error, request) {
  if (error instanceof PlatformError) return error;
  const { method, url, signal } = request;
  if (signal.aborted && signal.reason?.name === 'TimeoutError') {
    return new TimeoutExceededError(`${method} ${url} was not answered in time`, {
      code: 'TIMEOUT',
      isRetryable: true,
    });
  }
  // The message of a fetch error is only "fetch failed"; its cause has the reason.
  const { cause, message } = /** @type {Error} */ (error);
  const reason = cause instanceof Error && cause.message ? cause.message : message;
  return makeError(request, [`${method} ${url} failed: ${reason}`, { code: 'NETWORK_ERROR', isRetryable: true }]);
}

/**
 * @param {Request} request
 * @param {[string, import('./errors.js').Failure]} failure
 */
const makeError = (request, failure) => request.makeError?.(...failure) ?? new PlatformError(...failure);

/** @param {string} text */
function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
