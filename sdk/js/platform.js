import { describeFailure, errorOf, TimeoutExceededError } from './errors.js';
import { recordsOf, Stream } from './events.js';
import { answerOf, FOLLOW_RETRIES, late } from './follow.js';
import { asPlatformError, DEFAULT_RETRIES, limit, open, piecesOf, retrying, send, waitForRetry } from './http.js';
import { rowsOf } from './listing.js';
import { Session } from './session.js';
import { formBody, jsonBody, readNamed, upload } from './upload.js';

const DEFAULT_TIMEOUT_MS = 300_000;
/** A watched run may take hours; each of its connections ends within 4.5 minutes. */
const MAX_WATCH_MS = 300_000;
/** A connection that ends sooner counts as one that failed. */
const MIN_WATCH_MS = 5_000;
const REFERENCE = /^([a-z0-9][a-z0-9-]*)\/([a-z0-9][a-z0-9._-]*)(?:@([a-z][a-z0-9-]{0,31}))?$/;
/** Methods whose requests may be sent twice. */
const REPEATABLE = ['GET', 'HEAD', 'PUT', 'DELETE'];

/**
 * @template [Data=any]
 * @typedef {object} Answer The result of a call.
 * @property {Data} data
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
 * @typedef {object} RequestOptions
 * @property {number} [timeout] Milliseconds for all attempts together. Default: the client's timeout, 300 000. Calls and
 * streams of runs that go on after the platform's answer have no limit unless it is given.
 * @property {number} [maxRetries] Default: the client's number of retries, 2.
 * @property {AbortSignal} [signal] Ends the request.
 * @property {Record<string, string>} [headers] Additional headers, such as `X-Platform-Skills`.
 */

/**
 * @typedef {object} OwnCallOptions
 * @property {string} [endpoint] Default: `run`.
 * @property {readonly import('./upload.js').File[]} [files] Paths, names and contents, or uploads. With files, the input
 * reaches the agent as `metadata` beside them.
 * @property {string} [idempotencyKey] A repeated call with the same key gets the answer of the first. Default: a new key,
 * which the retries of this call share.
 */

/** @typedef {RequestOptions & OwnCallOptions} CallOptions */
/**
 * @typedef {object} OwnStartOptions
 * @property {string} [webhook] Address to which the run's end is posted.
 * @property {Date | string} [runAt] When the run begins: at most 30 days ahead, a text with an offset.
 * @property {number} [delaySeconds] The same as seconds from now.
 * @property {number} [priority] From -10 to 10: among runs that wait for their turn, higher ones begin first.
 */
/** @typedef {CallOptions & OwnStartOptions} StartOptions */
/** @typedef {{ type: string, [member: string]: any }} Progress */
/**
 * @template [Data=any]
 * @typedef {{ type: 'result' } & Answer<Data>} Result
 */

/**
 * @typedef {object} Event An event of a watched run: `type` is `progress`, `trace`, `sub_call` or `end`.
 * @property {string} id
 * @property {string} type
 * @property {string} created_at
 * @property {Record<string, any>} data
 */

/** @typedef {Record<string, string | number | boolean | undefined>} Query */
/** @typedef {import('./session.js').Target} Target */
/** @typedef {import('./session.js').SessionOptions} SessionOptions */

/**
 * @typedef {object} PlatformOptions
 * @property {string} [apiKey] Default: `PLATFORM_API_KEY`.
 * @property {string} [url] Default: `PLATFORM_API_URL`.
 * @property {string} [workspaceId] The workspace to act in. Default: the workspace of the key.
 * @property {number} [timeout] Milliseconds, default 300 000.
 * @property {number} [maxRetries] Default 2.
 */

/**
 * Calls agents from outside, with a person's API key. Agents are named `org/agent` (its latest version) or
 * `org/agent@v1`. Every method throws PlatformError, among them TimeoutExceededError.
 */
export class Platform {
  /** @type {string} */
  #url;
  /** @type {Record<string, string>} */
  #headers;
  /** @type {{ timeout: number, maxRetries: number }} */
  #defaults;
  /** Whether the program gave its own timeout. */
  #isLimited;
  /** @type {Promise<string> | undefined} */
  #workspaceId;

  /** @param {PlatformOptions} [options] */
  constructor({
    apiKey = process.env.PLATFORM_API_KEY,
    url = process.env.PLATFORM_API_URL,
    workspaceId,
    timeout,
    maxRetries = DEFAULT_RETRIES,
  } = {}) {
    if (!apiKey || !url) throw new TypeError('Platform needs apiKey and url, or PLATFORM_API_KEY and PLATFORM_API_URL');
    this.#url = url.replace(/\/+$/, '');
    this.#headers = { Authorization: `Bearer ${apiKey}`, ...(workspaceId && { 'X-Workspace-Id': workspaceId }) };
    this.#defaults = { timeout: timeout ?? DEFAULT_TIMEOUT_MS, maxRetries };
    this.#isLimited = timeout !== undefined;
    if (workspaceId) this.#workspaceId = Promise.resolve(workspaceId);
  }

  /**
   * Calls an agent and waits for its answer. If the platform answers before the run has ended, as it does for agents
   * whose runs last, the run is followed to its end.
   *
   * @template {string} Name
   * @param {Name} agent
   * @param {import('agent-platform-sdk/agents').InputOf<Name>} [input]
   * @param {CallOptions} [options]
   * @returns {Promise<Answer<import('agent-platform-sdk/agents').OutputOf<Name>>>}
   */
  async call(agent, input, options = {}) {
    return this.#call(targetOf(agent, input, options), options);
  }

  /**
   * @param {Target} target
   * @param {CallOptions} options
   * @returns {Promise<Answer>}
   */
  async #call(target, options) {
    const request = await this.#prepare(target, options, {});
    const { body, headers, status } = await send(request);
    if (status !== 202) return asAnswer(body, headers);
    const { maxRetries } = options;
    return this.#answerOf({ id: body.run_id, url: body.url }, { maxRetries }, this.#followLimits(request, options));
  }

  /**
   * Calls an agent and yields its events; the last one has the type `result`. The run continues if the caller stops
   * reading. A connection that is lost is made again: then only the events from there on are yielded. A run that outlasts
   * the stream is followed to its end, without a gap.
   *
   * @template {string} Name
   * @param {Name} agent
   * @param {import('agent-platform-sdk/agents').InputOf<Name>} [input]
   * @param {CallOptions} [options]
   * @returns {Stream<Progress | Result<import('agent-platform-sdk/agents').OutputOf<Name>>>}
   */
  stream(agent, input, options = {}) {
    return this.#stream(async () => targetOf(agent, input, options), options);
  }

  /**
   * @param {() => Promise<Target>} target
   * @param {CallOptions} options
   * @returns {Stream<any>}
   */
  #stream(target, options) {
    return new Stream((stream, signal) => this.#events(stream, signal, target, options));
  }

  /**
   * Starts a call without waiting for its answer.
   *
   * @template {string} Name
   * @param {Name} agent
   * @param {import('agent-platform-sdk/agents').InputOf<Name>} [input]
   * @param {StartOptions} [options]
   * @returns {Promise<Run>}
   */
  async start(agent, input, { webhook, runAt, delaySeconds, priority, ...options } = {}) {
    const own = {
      Prefer: 'respond-async',
      ...(webhook !== undefined && { 'X-Platform-Webhook': webhook }),
      ...(runAt !== undefined && { 'X-Platform-Run-At': runAt instanceof Date ? runAt.toISOString() : runAt }),
      ...(delaySeconds !== undefined && { 'X-Platform-Delay-Seconds': String(delaySeconds) }),
      ...(priority !== undefined && { 'X-Platform-Priority': String(priority) }),
    };
    const { body } = await send(await this.#prepare(targetOf(agent, input, options), options, own));
    return { id: body.run_id, url: body.url };
  }

  /**
   * A conversation with an agent. Nothing is sent before its first message.
   *
   * @template {string} Name
   * @param {Name} agent With a version, such as `acme/helper@v3`, the conversation stays with that version.
   * @param {string} [name] The program's own name of the session, or the platform's id of one that exists. The same name,
   * agent and tenant find the same session. Without one, each object opens a session of its own.
   * @param {SessionOptions} [options] What a session is opened with.
   * @returns {Session<Name>}
   */
  session(agent, name, options = {}) {
    targetOf(agent, undefined, {});
    /** @type {import('./session.js').Channel} */
    const channel = {
      call: (target, more) => this.#call(target, more),
      stream: (target, more) => this.#stream(target, more),
      request: (method, path, more) => this.request(method, path, more),
      list: (path, query, more) => this.list(path, query, more),
    };
    return new Session(channel, agent, name ?? undefined, options);
  }

  /**
   * The sessions of the workspace, newest first.
   *
   * @param {Query} [query] Filters, such as `agent` and `tenant_id`.
   * @param {RequestOptions} [options]
   */
  sessions(query, options) {
    return this.list('/workspaces/{workspace_id}/sessions', query, options);
  }

  /**
   * Waits for the answer of a run.
   *
   * @param {Run | string} run A started call, or the ID of any run of the workspace.
   * @param {RequestOptions} [options]
   * @returns {Promise<Answer>}
   */
  async wait(run, options = {}) {
    const { timeout = this.#defaults.timeout, signal } = options;
    return this.#answerOf(run, options, limit(timeout, signal));
  }

  /**
   * The events of a run, from its beginning to its end. A connection that is lost is made again without a gap.
   *
   * @param {Run | string} run A started call, or the ID of any run of the workspace.
   * @param {RequestOptions & { after?: string }} [options] `after` is the `id` of the last event that is known. `timeout`
   * limits the time in all; there is none by default.
   * @returns {Stream<Event>}
   */
  watch(run, options = {}) {
    return new Stream((stream, signal) => this.#watch(stream, signal, run, options));
  }

  /**
   * Cancels a run and the calls below it. Does nothing if it has ended.
   *
   * @param {Run | string} run
   * @param {RequestOptions} [options]
   * @returns {Promise<void>}
   */
  async cancel(run, options = {}) {
    await this.#send('DELETE', this.#locate(run).path, options);
  }

  /**
   * Runs the same version again with the same input, and returns at once.
   *
   * @param {Run | string} run
   * @param {RequestOptions & {
   *   input?: object,
   *   agentVersion?: string,
   *   fromTurn?: number,
   *   message?: string,
   *   toolResults?: { turn: number, call: number, text: string }[],
   *   model?: string,
   * }} [options] `input` replaces the recorded input, and `agentVersion` (`v3` or `latest`) the version of the run. With
   * `fromTurn` the new run begins from a turn of a durable loop: with a `message`, other `toolResults`, another `model`.
   * @returns {Promise<Run>}
   */
  async replay(run, { input, agentVersion, fromTurn, message, toolResults, model, ...options } = {}) {
    const branch = { from_turn: fromTurn, message, tool_results: toolResults, model };
    const body = { input, agent_version: agentVersion, ...branch };
    const { run_id } = await this.#send('POST', `${this.#locate(run).path}/replay`, { ...options, body });
    return { id: run_id, url: this.#locate(run_id).path };
  }

  /**
   * Creates a link that shows a run, read-only, to people without an account. Only owners of the workspace may.
   *
   * @param {Run | string} run
   * @param {RequestOptions & { expiresInDays?: number }} [options] `expiresInDays`: from 1 to 30. Default: 7.
   * @returns {Promise<any>} `id`, `expires_at`, and `url`, the link, which no later answer contains.
   */
  async share(run, { expiresInDays, ...options } = {}) {
    const body = { expires_in_days: expiresInDays };
    return this.#send('POST', `${this.#locate(run).path}/shares`, { ...options, body });
  }

  /**
   * The valid links to a run.
   *
   * @param {Run | string} run
   * @param {RequestOptions} [options]
   */
  shares(run, options) {
    return this.list(`${this.#locate(run).path}/shares`, {}, options);
  }

  /**
   * Revokes a link to a run at once.
   *
   * @param {Run | string} run
   * @param {string} share ID of the link.
   * @param {RequestOptions} [options]
   * @returns {Promise<void>}
   */
  async revokeShare(run, share, options = {}) {
    await this.#send('DELETE', `${this.#locate(run).path}/shares/${encodeURIComponent(share)}`, options);
  }

  /**
   * Scores a run. A score with the same name and source is replaced.
   *
   * @param {Run | string} run
   * @param {string} name What is scored, such as `helpful`.
   * @param {number | string} score A number, or a label such as `too short`.
   * @param {RequestOptions & { comment?: string, source?: string }} [options] `source`: who or what scored. Default: `api`.
   * @returns {Promise<any>} The score as stored.
   */
  async score(run, name, score, { comment, source, ...options } = {}) {
    const body = { name, [typeof score === 'number' ? 'value' : 'label']: score, comment, source };
    return this.#send('POST', `${this.#locate(run).path}/scores`, { ...options, body });
  }

  /**
   * The scores of a run, oldest first.
   *
   * @param {Run | string} run
   * @param {RequestOptions} [options]
   */
  scores(run, options) {
    return this.list(`${this.#locate(run).path}/scores`, {}, options);
  }

  /**
   * Uploads a file once, for the `files` of any number of calls until it expires.
   *
   * @param {Exclude<import('./upload.js').File, import('./upload.js').Upload>} file
   * @param {RequestOptions} [options]
   * @returns {Promise<import('./upload.js').Upload>}
   */
  async upload(file, options = {}) {
    return upload(this.#access(options), await readNamed(file));
  }

  /**
   * Writes the answer of a path, such as the bundle of an agent, to a file, however large it is. The file appears when it
   * is complete.
   *
   * @param {string} path A path of the API. `{workspace_id}` in it stands for the workspace of the client.
   * @param {string} target
   * @param {RequestOptions & { query?: Query }} [options]
   * @returns {Promise<number>} The number of its bytes.
   */
  async download(path, target, options = {}) {
    const { createWriteStream } = await import('node:fs');
    const { rename, rm } = await import('node:fs/promises');
    const { pipeline } = await import('node:stream/promises');
    const request = await this.#request('GET', path, options);
    const partial = `${target}.${crypto.randomUUID()}.part`;
    try {
      const bytes = await retrying(request, async (response) => {
        const file = createWriteStream(partial);
        await pipeline(piecesOf(response, Number.POSITIVE_INFINITY), file);
        return file.bytesWritten;
      });
      await rename(partial, target);
      return bytes;
    } finally {
      await rm(partial, { force: true });
    }
  }

  /**
   * Sends any request of the API and returns its answer, as parsed JSON.
   *
   * @param {string} method
   * @param {string} path `{workspace_id}` in it stands for the workspace of the client.
   * @param {RequestOptions & { query?: Query, body?: unknown }} [options]
   * @returns {Promise<any>}
   */
  request(method, path, options = {}) {
    return this.#send(method, path, options);
  }

  /**
   * Every row of any listing of the API, page by page.
   *
   * @param {string} path `{workspace_id}` in it stands for the workspace of the client.
   * @param {Query} [query] Filters; `limit` is the number of rows in a page.
   * @param {RequestOptions} [options]
   * @returns {AsyncGenerator<any, void, void>}
   */
  list(path, query = {}, options = {}) {
    return rowsOf((page) => this.#send('GET', path, { ...options, query: /** @type {Query} */ (page) }), query);
  }

  /**
   * The agents of the workspace, each in its latest version.
   *
   * @param {Query} [query]
   * @param {RequestOptions} [options]
   */
  agents(query, options) {
    return this.list('/agents', { latest: true, ...query }, options);
  }

  /**
   * The runs of the workspace, newest first.
   *
   * @param {Query} [query] Filters, such as `agent_name` and `status`.
   * @param {RequestOptions} [options]
   */
  runs(query, options) {
    return this.list('/workspaces/{workspace_id}/runs', query, options);
  }

  /**
   * @param {Query} [query]
   * @param {RequestOptions} [options]
   */
  schedules(query, options) {
    return this.list('/workspaces/{workspace_id}/schedules', query, options);
  }

  /**
   * @param {Query} [query]
   * @param {RequestOptions} [options]
   */
  services(query, options) {
    return this.list('/workspaces/{workspace_id}/services', query, options);
  }

  /**
   * @param {Query} [query]
   * @param {RequestOptions} [options]
   */
  tasks(query, options) {
    return this.list('/workspaces/{workspace_id}/tasks', query, options);
  }

  /**
   * @param {Query} [query]
   * @param {RequestOptions} [options]
   */
  messages(query, options) {
    return this.list('/workspaces/{workspace_id}/messages', query, options);
  }

  /**
   * @param {Stream<any>} stream
   * @param {AbortSignal} closed
   * @param {() => Promise<Target>} targetNow
   * @param {CallOptions} options
   * @returns {AsyncGenerator<any, void, void>}
   */
  async *#events(stream, closed, targetNow, options) {
    const target = await targetNow();
    const request = await this.#prepare(target, options, { Accept: 'text/event-stream' }, closed);
    for (let attempt = 0; ; attempt++) {
      const response = await open(request);
      stream.runId = response.headers.get('x-run-id');
      /** @type {{ run_id: string, url: string, after?: string | number } | undefined} */
      let onward;
      try {
        if (response.status === 202) onward = parsed(await response.text());
        else if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
          yield { type: 'result', ...asAnswer(await response.json(), response.headers) };
          return;
        }
        for await (const { event, data } of onward ? [] : recordsOf(response)) {
          const content = parsed(data);
          if (event === 'progress') yield content;
          else if (event === 'continues') {
            onward = content;
            break;
          } else if (event === 'error') throw errorOf(...describeFailure(null, content, response.headers));
          else if (event === 'result') {
            yield { type: 'result', ...asAnswer(content, response.headers) };
            return;
          }
        }
        if (!onward) throw lost(`The stream of ${target.name} ended without a result`);
      } catch (error) {
        // The key of the request makes the platform answer with the run that began.
        await waitForRetry(asPlatformError(error, request), attempt, request);
        continue;
      }
      yield* this.#goOn(stream, closed, onward, options, this.#followLimits(request, options, closed));
      return;
    }
  }

  /**
   * The rest of a stream whose run goes on at another address: its progress, then its result.
   *
   * @param {Stream<any>} stream
   * @param {AbortSignal} closed
   * @param {{ run_id: string, url: string, after?: string | number }} onward
   * @param {CallOptions} options
   * @param {import('./http.js').Limits} limits
   * @returns {AsyncGenerator<any, void, void>}
   */
  async *#goOn(stream, closed, { run_id, url, after }, { maxRetries, signal }, limits) {
    const run = { id: run_id, url: url.replace(/\/events$/, '') };
    const timeout = limits.end - Date.now();
    const from = after === undefined ? undefined : String(after);
    for await (const { type, data } of this.#watch(stream, closed, run, { maxRetries, signal, timeout, after: from })) {
      if (type === 'progress') yield data;
    }
    yield { type: 'result', ...(await this.#answerOf(run, { maxRetries }, limits)) };
  }

  /**
   * @param {Run | string} run
   * @param {RequestOptions} options
   * @param {import('./http.js').Limits} limits
   * @returns {Promise<Answer>}
   */
  async #answerOf(run, options, limits) {
    const { id, path } = this.#locate(run);
    const { headers } = options;
    const request = await this.#request('GET', path, { headers, maxRetries: this.#patience(options) }, limits);
    return answerOf(id, request);
  }

  /**
   * Limits for following the run of a call: those of the call if the program gave any, otherwise its signals alone.
   *
   * @param {import('./http.js').Request} request
   * @param {CallOptions} options
   * @param {AbortSignal} [closed]
   */
  #followLimits({ limits }, { timeout, signal }, closed) {
    return this.#isLimited || timeout !== undefined ? limits : limit(Number.POSITIVE_INFINITY, closed, signal);
  }

  /**
   * How often a lost connection to a run is made again. A program that wants no retries gets none.
   *
   * @param {RequestOptions} options
   */
  #patience({ maxRetries = this.#defaults.maxRetries }) {
    return maxRetries === 0 ? 0 : Math.max(maxRetries, FOLLOW_RETRIES);
  }

  /**
   * @param {Stream<Event>} stream
   * @param {AbortSignal} closed
   * @param {Run | string} run
   * @param {RequestOptions & { after?: string }} options
   * @returns {AsyncGenerator<Event, void, void>}
   */
  async *#watch(stream, closed, run, { after, timeout = Number.POSITIVE_INFINITY, signal, ...options }) {
    const { id: runId, path } = this.#locate(run);
    stream.runId = runId;
    const end = Date.now() + timeout;
    const headers = { ...options.headers, Accept: 'text/event-stream' };
    /** Events that share the number `after`: they come again. @type {Set<string>} */
    let known = new Set();
    const maxRetries = this.#patience(options);
    let attempt = 0;
    while (true) {
      const left = Math.min(MAX_WATCH_MS, end - Date.now());
      if (left <= 0) throw late(`The run ${runId} did not end within ${timeout} ms`, runId);
      const request = await this.#request(
        'GET',
        `${path}/events`,
        { ...options, maxRetries, headers, query: { after } },
        limit(left, closed, signal),
      );
      const began = Date.now();
      try {
        // Its failures count below.
        for await (const { id, event, data } of recordsOf(await open({ ...request, retries: 0 }))) {
          const content = parsed(data);
          if (event === 'error' && id === undefined) throw errorOf(...describeFailure(null, content));
          attempt = 0;
          if (id !== after) known = new Set();
          if (known.has(data)) continue;
          known.add(data);
          after = id ?? after;
          yield content;
          if (event === 'end') return;
        }
        // The platform ends each connection after some minutes, and when it stops.
        if (Date.now() - began >= MIN_WATCH_MS) {
          attempt = 0;
          continue;
        }
        throw lost(`The events of the run ${runId} ended before the run`);
      } catch (error) {
        const failure = asPlatformError(error, request);
        if (failure instanceof TimeoutExceededError) continue;
        await waitForRetry(failure, attempt++, request);
      }
    }
  }

  /**
   * @param {Run | string} run
   * @returns {{ id: string, path: string }}
   */
  #locate(run) {
    if (typeof run !== 'string') return { id: run.id, path: run.url };
    return { id: run, path: `/workspaces/{workspace_id}/runs/${encodeURIComponent(run)}` };
  }

  /**
   * @param {RequestOptions} options
   * @param {import('./http.js').Limits} [limits]
   * @returns {import('./upload.js').Access}
   */
  #access({ timeout = this.#defaults.timeout, maxRetries = this.#defaults.maxRetries, signal }, limits) {
    const headers = this.#headers;
    return { url: this.#url, headers, limits: limits ?? limit(timeout, signal), retries: maxRetries };
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {RequestOptions & { query?: Query, body?: unknown }} options
   * @param {import('./http.js').Limits} [given]
   * @returns {Promise<import('./http.js').Request>}
   */
  async #request(method, path, options, given) {
    const { limits, retries } = this.#access(options, given);
    const { query = {}, body, headers } = options;
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) if (value !== undefined) search.set(name, String(value));
    return {
      method,
      url: (await this.#address(path, limits)) + (search.size > 0 ? `?${search}` : ''),
      headers: { ...this.#headers, ...(body !== undefined && { 'Content-Type': 'application/json' }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      limits,
      retries: REPEATABLE.includes(method) ? retries : 0,
    };
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {RequestOptions & { query?: Query, body?: unknown }} options
   * @param {import('./http.js').Limits} [limits]
   */
  async #send(method, path, options, limits) {
    const { body } = await send(await this.#request(method, path, options, limits));
    return body;
  }

  /**
   * @param {string} path
   * @param {import('./http.js').Limits} limits
   */
  async #address(path, limits) {
    const own = path.startsWith(`${this.#url}/`) ? path.slice(this.#url.length) : path;
    // The key must not reach another server.
    if (!own.startsWith('/')) throw new TypeError(`"${path}" is no path of the API: it must begin with "/"`);
    if (!own.includes('{workspace_id}')) return this.#url + own;
    this.#workspaceId ??= this.#send('GET', '/org', {}, limits).then(({ id }) => id);
    const id = await this.#workspaceId.catch((error) => {
      this.#workspaceId = undefined;
      throw error;
    });
    return this.#url + own.replaceAll('{workspace_id}', encodeURIComponent(id));
  }

  /**
   * @param {Target} target
   * @param {CallOptions} options
   * @param {Record<string, string>} more
   * @param {AbortSignal} [closed]
   * @returns {Promise<import('./http.js').Request>}
   */
  async #prepare({ path, input }, options, more, closed) {
    const { files = [], idempotencyKey, headers } = options;
    const { timeout = this.#defaults.timeout, signal } = options;
    const limits = limit(timeout, closed, signal);
    const access = this.#access(options, limits);
    const { retries = 0 } = access;
    const { body, headers: described } =
      files.length > 0 ? await formBody(access, files, input) : await jsonBody(access, input ?? {});
    // Without retries a key would be of no use.
    const key = idempotencyKey ?? (retries > 0 ? crypto.randomUUID() : undefined);
    return {
      method: 'POST',
      url: await this.#address(path, limits),
      headers: {
        ...this.#headers,
        ...described,
        ...(key !== undefined && { 'Idempotency-Key': key }),
        ...headers,
        ...more,
      },
      body,
      limits,
      retries,
    };
  }
}

/**
 * @param {string} agent
 * @param {unknown} input
 * @param {CallOptions} options
 * @returns {Target}
 */
function targetOf(agent, input, { endpoint = 'run' }) {
  const [, org, name, version = 'latest'] = REFERENCE.exec(agent) ?? [];
  if (!org) throw new TypeError(`"${agent}" is no agent, such as "acme/summarize" or "acme/summarize@v1"`);
  return { name: agent, path: `/${org}/${name}/${version}/${encodeURIComponent(endpoint)}`, input };
}

/**
 * @param {any} body
 * @param {Headers} headers
 * @returns {Answer}
 */
function asAnswer(body, headers) {
  if (typeof body !== 'object' || body === null || !('data' in body)) {
    throw errorOf(...describeFailure(200, body, headers));
  }
  const { data, warnings = [], metadata = {} } = body;
  return { data, warnings, metadata, runId: headers.get('x-run-id') };
}

/** @param {string} message */
const lost = (message) => errorOf(message, { code: 'NETWORK_ERROR', isRetryable: true });

/** @param {string} data */
function parsed(data) {
  try {
    return JSON.parse(data);
  } catch {
    throw lost(`The stream has a record that is not JSON: ${data.slice(0, 200)}`);
  }
}
