import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describeFailure, PlatformError, TimeoutExceededError } from './errors.js';
import { asPlatformError, open, send } from './http.js';
import { formBody, jsonBody } from './upload.js';

const DEFAULT_TIMEOUT_MS = 300_000;
const POLL_MS = 500;
const REFERENCE = /^([a-z0-9][a-z0-9-]*)\/([a-z0-9][a-z0-9._-]*)(?:@(v\d+|latest))?$/;

/**
 * @typedef {object} Answer The result of a call.
 * @property {any} data
 * @property {{ code: string, field?: string, message: string }[]} warnings
 * @property {Record<string, any>} metadata
 * @property {string | null} runId Names the run in the workspace's logs.
 */

/**
 * @typedef {object} Run A call that continues without its caller.
 * @property {string} id
 * @property {string} url
 */

/**
 * @typedef {object} CallOptions
 * @property {string} [endpoint] Default: `run`.
 * @property {readonly (string | { name: string, content: string | Uint8Array | Blob })[]} [files] Paths, or names and
 * contents. With files, the input reaches the agent as `metadata` beside them.
 * @property {string} [idempotencyKey] A repeated call with the same key gets the answer of the first.
 * @property {Record<string, string>} [headers] Additional headers, such as `X-Platform-Skills`.
 * @property {number} [timeout] Milliseconds, default 300 000.
 */

/** @typedef {{ type: string, [member: string]: any }} Progress */
/** @typedef {{ type: 'result' } & Answer} Result */

/**
 * Calls agents from outside, with a person's API key. Agents are named `org/agent` (its latest version) or
 * `org/agent@v1`. Every method throws PlatformError, among them TimeoutExceededError.
 */
export class Platform {
  /** @type {string} */
  #url;
  /** @type {Record<string, string>} */
  #headers;

  /**
   * @param {{ apiKey?: string, url?: string, workspaceId?: string }} [options] `apiKey` and `url` come from
   * `PLATFORM_API_KEY` and `PLATFORM_API_URL` by default.
   */
  constructor({ apiKey = process.env.PLATFORM_API_KEY, url = process.env.PLATFORM_API_URL, workspaceId } = {}) {
    if (!apiKey || !url) throw new TypeError('Platform needs apiKey and url, or PLATFORM_API_KEY and PLATFORM_API_URL');
    this.#url = url.replace(/\/+$/, '');
    this.#headers = { Authorization: `Bearer ${apiKey}`, ...(workspaceId && { 'X-Workspace-Id': workspaceId }) };
  }

  /**
   * Calls an agent and waits for its answer.
   *
   * @param {string} agent
   * @param {object} [input]
   * @param {CallOptions} [options]
   * @returns {Promise<Answer>}
   */
  async call(agent, input, options = {}) {
    const { body, headers } = await send(await this.#prepare(agent, input, options, {}));
    return asAnswer(body, headers);
  }

  /**
   * Calls an agent and yields its events; the last one has the type `result`. The call continues if the caller stops
   * reading.
   *
   * @param {string} agent
   * @param {object} [input]
   * @param {CallOptions} [options]
   * @returns {AsyncGenerator<Progress | Result, void, void>}
   */
  async *stream(agent, input, options = {}) {
    const request = await this.#prepare(agent, input, options, { Accept: 'text/event-stream' });
    const response = await open(request);
    try {
      if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
        yield { type: 'result', ...asAnswer(await response.json(), response.headers) };
        return;
      }
      for await (const { event, data } of eventsOf(response)) {
        const content = JSON.parse(data);
        if (event === 'progress') yield content;
        else if (event === 'error') throw new PlatformError(...describeFailure(null, content));
        else if (event === 'result') {
          yield { type: 'result', ...asAnswer(content, response.headers) };
          return;
        }
      }
    } catch (error) {
      throw asPlatformError(error, request);
    }
    throw new PlatformError(`The stream of ${agent} ended without a result`, { code: 'NETWORK_ERROR' });
  }

  /**
   * Starts a call without waiting for its answer.
   *
   * @param {string} agent
   * @param {object} [input]
   * @param {CallOptions} [options]
   * @returns {Promise<Run>}
   */
  async start(agent, input, options = {}) {
    const { body } = await send(await this.#prepare(agent, input, options, { Prefer: 'respond-async' }));
    return { id: body.run_id, url: body.url };
  }

  /**
   * Waits for the answer of a started call.
   *
   * @param {Run} run
   * @param {{ timeout?: number }} [options]
   * @returns {Promise<Answer>}
   */
  async wait(run, { timeout = DEFAULT_TIMEOUT_MS } = {}) {
    const end = Date.now() + timeout;
    while (true) {
      const { body: record } = await this.#request('GET', run);
      if (record.status === 'completed') return { data: record.output_data, warnings: [], metadata: {}, runId: run.id };
      if (record.status !== 'queued' && record.status !== 'running') {
        const code = { timeout: 'TIMEOUT', cancelled: 'RUN_CANCELLED' }[String(record.status)] ?? 'INTERNAL_ERROR';
        throw new PlatformError(record.error_message ?? `The run ${record.status}`, {
          code: record.error_code ?? code,
          responseBody: record,
        });
      }
      if (Date.now() + POLL_MS > end) {
        const message = `The run ${run.id} did not end within ${timeout} ms`;
        throw new TimeoutExceededError(message, { code: 'TIMEOUT', isRetryable: true });
      }
      await sleep(POLL_MS);
    }
  }

  /**
   * Cancels a started call and the calls below it. Does nothing if the call has ended.
   *
   * @param {Run} run
   * @returns {Promise<void>}
   */
  async cancel(run) {
    await this.#request('DELETE', run);
  }

  /**
   * @param {string} method
   * @param {Run} run
   */
  #request(method, { url }) {
    const signal = AbortSignal.timeout(DEFAULT_TIMEOUT_MS);
    return send({ method, url: url.startsWith('/') ? this.#url + url : url, headers: this.#headers, signal });
  }

  /**
   * @param {string} agent
   * @param {object | undefined} input
   * @param {CallOptions} options
   * @param {Record<string, string>} more
   * @returns {Promise<import('./http.js').Request>}
   */
  async #prepare(agent, input, { endpoint = 'run', files = [], idempotencyKey, headers, timeout }, more) {
    const [, org, name, version = 'latest'] = REFERENCE.exec(agent) ?? [];
    if (!org) throw new TypeError(`"${agent}" is no agent, such as "acme/summarize" or "acme/summarize@v1"`);
    const signal = AbortSignal.timeout(timeout ?? DEFAULT_TIMEOUT_MS);
    const access = { url: this.#url, headers: this.#headers, signal };
    const { body, headers: described } =
      files.length > 0
        ? await formBody(access, await Promise.all(files.map(readNamed)), input)
        : await jsonBody(access, input ?? {});
    return {
      method: 'POST',
      url: `${this.#url}/${org}/${name}/${version}/${encodeURIComponent(endpoint)}`,
      headers: {
        ...this.#headers,
        ...described,
        ...(idempotencyKey !== undefined && { 'Idempotency-Key': idempotencyKey }),
        ...headers,
        ...more,
      },
      body,
      signal,
    };
  }
}

/**
 * @param {any} body
 * @param {Headers} headers
 * @returns {Answer}
 */
function asAnswer(body, headers) {
  if (typeof body !== 'object' || body === null || !('data' in body)) {
    throw new PlatformError(...describeFailure(200, body));
  }
  const { data, warnings = [], metadata = {} } = body;
  return { data, warnings, metadata, runId: headers.get('x-run-id') };
}

/**
 * @param {NonNullable<CallOptions['files']>[number]} file
 * @returns {Promise<import('./upload.js').NamedFile>}
 */
async function readNamed(file) {
  const { name, content } = typeof file === 'string' ? { name: basename(file), content: await readFile(file) } : file;
  return { name, content: content instanceof Blob ? content : new Blob([content]) };
}

/**
 * The records of a stream of server-sent events; comments and records without data are skipped.
 *
 * @param {Response} response
 */
async function* eventsOf(response) {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of /** @type {AsyncIterable<Uint8Array>} */ (/** @type {unknown} */ (response.body))) {
    text += decoder.decode(chunk, { stream: true });
    const records = text.split('\n\n');
    text = records.pop() ?? '';
    for (const record of records) {
      const fields = record.split('\n').map((line) => /^(\w*): ?(.*)$/s.exec(line) ?? []);
      const data = fields.filter(([, field]) => field === 'data').map(([, , value]) => value);
      const event = fields.find(([, field]) => field === 'event')?.[2] ?? 'message';
      if (data.length > 0) yield { event, data: data.join('\n') };
    }
  }
}
