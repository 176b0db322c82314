import { PlatformError } from './errors.js';
import { send } from './http.js';

const TIMEOUT_MS = 30_000;

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
export async function request(method, path, { query = {}, body, headers, makeError } = {}) {
  const key = process.env.PLATFORM_SERVICE_KEY || process.env.PLATFORM_API_KEY;
  const base = process.env.PLATFORM_GATEWAY_URL || process.env.PLATFORM_API_URL;
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
    signal: AbortSignal.timeout(TIMEOUT_MS),
    makeError,
  });
  return answer.body;
}
