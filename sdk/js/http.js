import { setTimeout as sleep } from 'node:timers/promises';
import { describeFailure, errorOf, PlatformError, TimeoutExceededError } from './errors.js';

export const DEFAULT_RETRIES = 2;
/** A larger answer is not read: it would fill the memory. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
/** A longer wait is left to the program, which gets the error with `suggestedWaitTime`. */
const MAX_WAIT_MS = 60_000;
const FIRST_WAIT_MS = 500;
const MAX_BACKOFF_MS = 8_000;

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
export function limit(timeout, ...signals) {
  // `AbortSignal.any` of Node 20 may lose a timeout signal that nothing else refers to.
  const controller = new AbortController();
  const late = new DOMException('The time is over', 'TimeoutError');
  const bounded = Math.min(timeout, 2 ** 31 - 1);
  /** @type {unknown} */
  const timer = setTimeout(() => controller.abort(late), bounded);
  // Only Node's timers keep the program running.
  /** @type {{ unref?: () => void }} */ (timer).unref?.();
  for (const given of signals) {
    if (given?.aborted) controller.abort(given.reason);
    else given?.addEventListener('abort', () => controller.abort(given.reason), { signal: controller.signal });
  }
  return { signal: controller.signal, late, end: Date.now() + bounded };
}

/**
 * The response of a success.
 *
 * @param {Request} request
 * @returns {Promise<Response>}
 */
export const open = (request) => retrying(request, async (response) => response);

/**
 * The parsed answer of a success, its headers and status.
 *
 * @param {Request} request
 * @returns {Promise<{ body: any, headers: Headers, status: number }>}
 */
export const send = (request) =>
  retrying(request, async (response) => {
    const { headers, status } = response;
    return { body: parse(await readText(response)), headers, status };
  });

/**
 * Sends a request until `use` succeeds with its response, or no retry is left.
 *
 * @template T
 * @param {Request} request
 * @param {(response: Response) => Promise<T>} use
 * @returns {Promise<T>}
 */
export async function retrying(request, use) {
  for (let attempt = 0; ; attempt++) {
    try {
      return await use(await openOnce(request));
    } catch (error) {
      await waitForRetry(asPlatformError(error, request), attempt, request);
    }
  }
}

/** @param {Request} request */
async function openOnce({ method, url, headers, body, limits, makeError = errorOf }) {
  // The platform never redirects: another server must not get the request.
  const response = await fetch(url, { method, headers, body, signal: limits.signal, redirect: 'manual' });
  if (response.ok) return response;
  throw makeError(...describeFailure(response.status, parse(await readText(response)), response.headers));
}

/**
 * Waits before the next attempt. Throws the error if the request may not be sent again. A run that began is never run a
 * second time: only what was refused before, or whose answer was lost, is sent again.
 *
 * @param {unknown} error
 * @param {number} attempt
 * @param {Request} request
 */
export async function waitForRetry(error, attempt, request) {
  const { limits, retries = 0 } = request;
  if (!(error instanceof PlatformError) || !error.isRetryable || error instanceof TimeoutExceededError) throw error;
  if (error.runId !== null || attempt >= retries) throw error;
  const asked = (error.suggestedWaitTime ?? 0) * 1000;
  const backoff = Math.min(FIRST_WAIT_MS * 2 ** attempt, MAX_BACKOFF_MS);
  // The jitter spreads the clients that failed together.
  const wait = asked + backoff * (asked > 0 ? 0.5 * Math.random() : 0.5 + 0.5 * Math.random());
  if (asked > MAX_WAIT_MS || Date.now() + wait >= limits.end) throw error;
  await pause(wait, request);
}

/**
 * @param {number} ms
 * @param {Request} request
 */
export const pause = (ms, request) =>
  sleep(ms, undefined, { signal: request.limits.signal }).catch((error) => {
    throw asPlatformError(error, request);
  });

/**
 * The program's own reason if it aborted the request; a PlatformError otherwise.
 *
 * @param {unknown} error
 * @param {Request} request
 */
export function asPlatformError(error, { method, url, limits: { signal, late }, makeError = errorOf }) {
  if (error instanceof PlatformError) return error;
  if (signal.aborted && signal.reason !== late) return signal.reason;
  if (signal.aborted) {
    return new TimeoutExceededError(`${method} ${url} was not answered in time`, {
      code: 'TIMEOUT',
      isRetryable: true,
    });
  }
  // The message of a fetch error is only "fetch failed"; its cause has the reason. An invalid header has no cause.
  const { cause, message } = /** @type {Error} */ (error);
  const reason = cause instanceof Error && cause.message ? cause.message : message;
  const isRetryable = cause !== undefined;
  return makeError(`${method} ${url} failed: ${reason}`, { code: 'NETWORK_ERROR', isRetryable });
}

/**
 * The pieces of a body. Ends the connection if there are too many bytes.
 *
 * @param {Response} response
 * @param {number} [max]
 */
export async function* piecesOf(response, max = MAX_ANSWER_BYTES) {
  let size = 0;
  for await (const piece of /** @type {AsyncIterable<Uint8Array>} */ (/** @type {unknown} */ (response.body ?? []))) {
    size += piece.length;
    if (size > max) {
      const { status } = response;
      throw errorOf(`The answer has more than ${max} bytes`, { code: 'ANSWER_TOO_LARGE', status });
    }
    yield piece;
  }
}

/** @param {Response} response */
async function readText(response) {
  const decoder = new TextDecoder();
  let text = '';
  for await (const piece of piecesOf(response)) text += decoder.decode(piece, { stream: true });
  return text + decoder.decode();
}

/** @param {string} text */
function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
