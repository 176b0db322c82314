import { variable } from './environment.js';
import { PlatformError } from './errors.js';
import { DEFAULT_RETRIES, limit, send } from './http.js';

const TIMEOUT_MS = 30_000;
/** Methods whose requests may be sent twice. */
const REPEATABLE = ['GET', 'PUT', 'DELETE'];

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
export async function request(method, path, { query = {}, body, headers, makeError, retries } = {}) {
  const key = variable('PLATFORM_SERVICE_KEY') || process.env.PLATFORM_API_KEY;
  const base = variable('PLATFORM_GATEWAY_URL') || process.env.PLATFORM_API_URL;
  if (!key || !base) {
    const missing = key ? 'PLATFORM_GATEWAY_URL' : 'PLATFORM_SERVICE_KEY';
    throw new PlatformError(`${missing} is not set: this works in runs on the platform`, { code: 'UNAUTHORIZED' });
  }
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) search.set(name, String(value));
  }
  const suffix = String(search) && `?${search}`;
  const answer = await send({
    method,
    url: `${base.replace(/\/+$/, '')}/${path.map(encodeURIComponent).join('/')}${suffix}`,
    headers: {
      Authorization: `Bearer ${key}`,
      ...(body !== undefined && { 'Content-Type': 'application/json' }),
      ...headers,
    },
    body: body === undefined ? undefined : JSON.stringify(body),
    limits: limit(retries === undefined ? TIMEOUT_MS : 2 * TIMEOUT_MS),
    // A condition that the lost first attempt met would fail the second one.
    retries: retries ?? (REPEATABLE.includes(method) && !headers?.['If-Match'] ? DEFAULT_RETRIES : 0),
    makeError,
  });
  return answer.body;
}
