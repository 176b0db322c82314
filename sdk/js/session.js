/**
 * @template [Data=any]
 * @typedef {import('./platform.js').Answer<Data>} Answer
 */

/**
 * @typedef {import('./platform.js').CallOptions} CallOptions
 * @typedef {import('./platform.js').Query} Query
 * @typedef {import('./platform.js').RequestOptions} RequestOptions
 */

/** @typedef {Omit<CallOptions, 'endpoint' | 'files'>} SendOptions */

/**
 * @typedef {object} SessionOptions
 * @property {string} [tenant] Your customer, to whom the session belongs. Each request for it names the same.
 * @property {string} [title]
 * @property {Record<string, string>} [metadata]
 * @property {number} [ttlDays] Days that the session is kept after its last message.
 * @property {'enqueue' | 'reject' | 'interrupt' | 'steer'} [busy] What becomes of a message while another one is answered.
 */

/**
 * @typedef {object} Channel What a session uses of its platform.
 * @property {(target: Target, options: CallOptions) => Promise<Answer>} call
 * @property {(target: () => Promise<Target>, options: CallOptions) => import('./events.js').Stream<any>} stream
 * @property {(method: string, path: string, options: RequestOptions & { body?: unknown }) => Promise<any>} request
 * @property {(path: string, query: Query, options: RequestOptions) => AsyncGenerator<any, void, void>} list
 */

/** @typedef {{ name: string, path: string, input: unknown }} Target What a call is sent to. */

/** The platform's own ids of sessions. */
const ID = /^ses_[0-9a-f]{32}$/;
const SESSIONS = '/workspaces/{workspace_id}/sessions';

/**
 * A conversation with an agent. Each message is a call; the agent gets the earlier ones with it. It is opened by its first
 * message, or found by the name that the program gave it.
 *
 * @template {string} [Name=string]
 */
export class Session {
  /** @type {Channel} */
  #channel;
  /** @type {Name} */
  #agent;
  /** @type {Record<string, string>} */
  #headers;
  /** @type {Record<string, unknown>} */
  #opening;
  /** @type {Promise<string> | undefined} */
  #id;

  /**
   * @param {Channel} channel
   * @param {Name} agent
   * @param {string | undefined} name
   * @param {SessionOptions} options
   */
  constructor(channel, agent, name, { tenant, title, metadata, ttlDays, busy }) {
    const [reference, version] = agent.split('@');
    this.#channel = channel;
    this.#agent = agent;
    this.#headers = tenant === undefined ? {} : { 'X-Platform-Tenant': tenant };
    this.#opening = {
      agent: reference,
      external_id: name,
      title,
      metadata,
      ttl_days: ttlDays,
      busy,
      ...(version !== undefined && version !== 'latest' && { pin_version: version }),
    };
    if (name !== undefined && ID.test(name)) this.#id = Promise.resolve(name);
  }

  /**
   * The platform's id of the session, which is opened if it is not yet.
   *
   * @param {RequestOptions} [options]
   * @returns {Promise<string>}
   */
  id(options = {}) {
    this.#id ??= this.#request('POST', SESSIONS, { ...options, body: this.#opening }).then(
      ({ id }) => id,
      (error) => {
        this.#id = undefined;
        throw error;
      },
    );
    return this.#id;
  }

  /**
   * Sends a message and waits for its answer.
   *
   * @param {string | import('agent-platform-sdk/agents').InputOf<Name>} message A text, which fills the agent's text of the
   * input, or the whole input.
   * @param {SendOptions} [options]
   * @returns {Promise<Answer<import('agent-platform-sdk/agents').OutputOf<Name>>>}
   */
  async send(message, options = {}) {
    return this.#channel.call(await this.#target(message, options), this.#with(options));
  }

  /**
   * Sends a message and yields its events; the last one has the type `result`. See `Platform.stream`.
   *
   * @param {string | import('agent-platform-sdk/agents').InputOf<Name>} message
   * @param {SendOptions} [options]
   * @returns {import('./events.js').Stream<
   *   import('./platform.js').Progress | import('./platform.js').Result<import('agent-platform-sdk/agents').OutputOf<Name>>
   * >}
   */
  stream(message, options = {}) {
    return this.#channel.stream(() => this.#target(message, options), this.#with(options));
  }

  /**
   * The messages of the session with their answers, from the first one on.
   *
   * @param {Query} [query] `order` is `asc` or `desc`; `limit` is the number of messages in a page.
   * @param {RequestOptions} [options]
   * @returns {AsyncGenerator<any, void, void>}
   */
  async *messages(query = {}, options = {}) {
    yield* this.#channel.list(`${await this.#path(options)}/messages`, { order: 'asc', ...query }, this.#with(options));
  }

  /**
   * A new session that begins with the first `after` messages of this one.
   *
   * @param {number} after
   * @param {RequestOptions & { title?: string }} [options]
   * @returns {Promise<Session<Name>>}
   */
  async fork(after, { title, ...options } = {}) {
    const body = { after, title };
    const { id } = await this.#request('POST', `${await this.#path(options)}/fork`, { ...options, body });
    return new Session(this.#channel, this.#agent, id, { tenant: this.#headers['X-Platform-Tenant'] });
  }

  /**
   * Cancels the run that answers a message now.
   *
   * @param {RequestOptions} [options]
   * @returns {Promise<string | null>} The id of the run; null if there is none.
   */
  async interrupt(options = {}) {
    const body = await this.#request('POST', `${await this.#path(options)}/interrupt`, options);
    return body?.run_id ?? null;
  }

  /**
   * Erases the session with all that was said in it.
   *
   * @param {RequestOptions} [options]
   * @returns {Promise<void>}
   */
  async delete(options = {}) {
    await this.#request('DELETE', await this.#path(options), options);
  }

  /** @param {RequestOptions} options */
  async #path({ timeout, maxRetries, signal }) {
    return `${SESSIONS}/${encodeURIComponent(await this.id({ timeout, maxRetries, signal }))}`;
  }

  /**
   * @param {string | object} message
   * @param {RequestOptions} options
   * @returns {Promise<Target>}
   */
  async #target(message, options) {
    const input = typeof message === 'string' ? { text: message } : { input: message };
    return { name: this.#agent, path: `${await this.#path(options)}/messages`, input };
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {RequestOptions & { body?: unknown }} options
   */
  #request(method, path, options) {
    return this.#channel.request(method, path, this.#with(options));
  }

  /**
   * @template {RequestOptions} Options
   * @param {Options} options
   * @returns {Options}
   */
  #with(options) {
    return { ...options, headers: { ...this.#headers, ...options.headers } };
  }
}
