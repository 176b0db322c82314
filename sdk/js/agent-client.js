import { variable } from './environment.js';
import { CallChainCycleError, DependencyCallError, MaxHopsExceededError, TimeoutExceededError } from './errors.js';
import { answerOf, FOLLOW_RETRIES } from './follow.js';
import { limit, send } from './http.js';
import { runLocally } from './local.js';
import { jsonBody } from './upload.js';

const DEFAULT_TIMEOUT_MS = 30_000;
const REFERENCE = /^([a-z0-9][a-z0-9-]*)\/([a-z0-9][a-z0-9._-]*)@(v\d+(?:\.\d+){0,2})$/;

/**
 * Number of equal calls that a tool has made.
 *
 * @type {Map<string, number>}
 */
const made = new Map();

/**
 * The key by which the platform recognizes the call of a tool that is run again after an interruption.
 *
 * @param {readonly unknown[]} call
 */
async function keyOfCall(call) {
  const toolCall = variable('PLATFORM_TOOL_CALL_ID');
  if (!toolCall) return undefined;
  const { createHash } = await import('node:crypto');
  const mark = createHash('sha256').update(JSON.stringify(call)).digest('hex').slice(0, 16);
  const count = (made.get(mark) ?? 0) + 1;
  made.set(mark, count);
  return `${toolCall}:${mark}:${count}`;
}

/**
 * The agent's position in a chain of calls. The platform signs it and refuses a changed one. Each member is also a
 * variable of a run (`callChain`: `PLATFORM_CALL_CHAIN`) and a header of a call (`X-Platform-Call-Chain`).
 */
const CONTEXT = /** @type {const} */ ([
  'callChain',
  'callChainSig',
  'deadlineMs',
  'maxHops',
  'downstreamRemaining',
  'requestId',
  'billingOrgId',
  'billingOrgSig',
  'rootRunId',
]);

/**
 * @typedef {object} AgentClientOptions The defaults come from the run's environment.
 * @property {string} [serviceKey]
 * @property {string} [gatewayUrl]
 * @property {string | readonly string[] | null} [callChain] References; the last one is the running agent's own.
 * @property {string | null} [callChainSig]
 * @property {number | string | null} [deadlineMs] Epoch milliseconds.
 * @property {number | string | null} [maxHops] Max levels of calls below this agent.
 * @property {number | string | null} [downstreamRemaining]
 * @property {string | null} [requestId]
 * @property {string | null} [billingOrgId]
 * @property {string | null} [billingOrgSig]
 * @property {string | null} [rootRunId]
 */

/**
 * @typedef {object} AgentCallOptions
 * @property {string} [endpoint] Default: `run`.
 * @property {number} [timeout] Milliseconds, default 30 000. The deadline of the run limits it.
 * @property {number} [maxRetries] Default 0: retries at each level of a chain would multiply.
 * @property {AbortSignal} [signal] Ends the request.
 */

/** Calls other agents from within an agent. */
export class AgentClient {
  /** @type {string | undefined} */
  #serviceKey;
  /** @type {string | undefined} */
  #gatewayUrl;
  /** @type {Partial<Record<(typeof CONTEXT)[number], string>>} */
  #context = {};

  /** @param {AgentClientOptions} [options] */
  constructor(options = {}) {
    this.#serviceKey = options.serviceKey ?? variable('PLATFORM_SERVICE_KEY');
    this.#gatewayUrl = (options.gatewayUrl ?? variable('PLATFORM_GATEWAY_URL'))?.replace(/\/+$/, '');
    for (const name of CONTEXT) {
      const given =
        options[name] === undefined ? variable(`PLATFORM_${words(name).join('_').toUpperCase()}`) : options[name];
      if (given !== undefined && given !== null && given !== '') this.#context[name] = String(given);
    }
  }

  /**
   * A client that continues the chain of an incoming call. Accepts requests of `node:http`, Express and fetch.
   *
   * @param {{ headers: Headers | Record<string, string | string[] | undefined> }} request
   * @param {Pick<AgentClientOptions, 'serviceKey' | 'gatewayUrl'>} [options]
   */
  static fromRequest(request, options = {}) {
    const { headers } = request;
    /** @param {string} name */
    const read = (name) => (headers instanceof Headers ? headers.get(name) : headers[name.toLowerCase()]) ?? null;
    const context = Object.fromEntries(CONTEXT.map((name) => [name, read(headerOf(name))]));
    return new AgentClient({ ...context, ...options });
  }

  /**
   * Calls `org/agent@v1` and returns its data. Any number of calls may run at once. If the platform answers before the
   * run has ended, the run is followed until it ends or the time is over.
   *
   * @template {string} Name
   * @param {Name} agent
   * @param {import('agent-platform-sdk/agents').InputOf<Name>} [input]
   * @param {AgentCallOptions} [options]
   * @returns {Promise<import('agent-platform-sdk/agents').OutputOf<Name>>}
   * @throws {DependencyCallError}
   * @throws {TimeoutExceededError}
   * @throws {CallChainCycleError}
   * @throws {MaxHopsExceededError}
   * @throws {TypeError} for a reference of another form
   */
  async call(agent, input, { endpoint = 'run', timeout = DEFAULT_TIMEOUT_MS, maxRetries = 0, signal } = {}) {
    const [, org, name, version] = REFERENCE.exec(agent) ?? [];
    if (!org || !name || !version) {
      throw new TypeError(`"${agent}" is no agent with a version, such as "acme/summarize@v1"`);
    }
    const hops = this.#checkChain(agent);
    const ms = this.#remaining(timeout);
    if (process.env.PLATFORM_LOCAL_EXECUTION) {
      return runLocally({
        agent,
        folder: [org, name, version],
        input: input ?? {},
        chain: this.#context.callChain,
        hops,
        timeout: ms,
      });
    }
    const gatewayUrl = this.#gateway();
    const context = Object.entries(this.#context).map(([member, value]) => [headerOf(member), value]);
    const authorization = { Authorization: `Bearer ${this.#serviceKey}` };
    const access = { limits: limit(ms, signal), retries: maxRetries };
    /** @type {import('./http.js').Request['makeError']} */
    const makeError = (...failure) => new DependencyCallError(...failure);
    const key = (await keyOfCall([agent, endpoint, input ?? {}])) ?? (maxRetries > 0 ? crypto.randomUUID() : undefined);
    const sent = await jsonBody({ ...access, url: gatewayUrl, headers: authorization, makeError }, input ?? {});
    const { body, status } = await send({
      method: 'POST',
      url: `${gatewayUrl}/${org}/${name}/${version}/${encodeURIComponent(endpoint)}`,
      headers: {
        ...Object.fromEntries(context),
        ...(hops !== undefined && { [headerOf('maxHops')]: String(hops) }),
        ...authorization,
        ...sent.headers,
        ...(key !== undefined && { 'Idempotency-Key': key }),
      },
      ...access,
      body: sent.body,
      makeError,
    });
    if (status === 202) {
      // The run goes on without this request: its key may read the runs that it started.
      const { url } = body;
      if (!String(url).startsWith('/')) throw makeError(`The run has no address: ${url}`, { code: 'NETWORK_ERROR' });
      const reading = { method: 'GET', url: gatewayUrl + url, headers: authorization };
      return (await answerOf(body.run_id, { ...reading, ...access, retries: FOLLOW_RETRIES, makeError })).data;
    }
    return typeof body === 'object' && body !== null && 'data' in body && 'metadata' in body ? body.data : body;
  }

  /**
   * Makes calls at once, each an agent and its input, and returns their data in the same order. Waits for all of them;
   * then throws the error of the first one, in this order, that failed.
   *
   * @param {Iterable<readonly [agent: string, input?: object]>} calls
   * @param {AgentCallOptions} [options]
   * @returns {Promise<any[]>}
   */
  async callAll(calls, options) {
    const outcomes = await Promise.allSettled(Array.from(calls, ([agent, input]) => this.call(agent, input, options)));
    return outcomes.map((outcome) => {
      if (outcome.status === 'rejected') throw outcome.reason;
      return outcome.value;
    });
  }

  /**
   * Runs this agent again later, with another input, and returns the id of that run at once. It is no part of this run.
   * Only for agents of the workspace in which they run.
   *
   * @param {object} input
   * @param {object} options One of `runAt` and `delaySeconds`.
   * @param {Date | string} [options.runAt] At most 30 days ahead; a text has an offset.
   * @param {number} [options.delaySeconds]
   * @param {number} [options.timeout] Milliseconds, default 30 000.
   * @returns {Promise<string>}
   * @throws {DependencyCallError}
   */
  async later(input, { runAt, delaySeconds, timeout = DEFAULT_TIMEOUT_MS }) {
    const gatewayUrl = this.#gateway();
    const own = (this.#context.callChain ?? '').split(',').at(-1)?.trim() ?? '';
    const [, org, name, version] = REFERENCE.exec(own) ?? [];
    /** @type {import('./http.js').Request['makeError']} */
    const makeError = (...failure) => new DependencyCallError(...failure);
    if (!org || !name || !version)
      throw makeError('only a run of a version can run itself later', { code: 'FORBIDDEN' });
    const time = runAt instanceof Date ? runAt.toISOString() : runAt;
    const key = await keyOfCall([own, 'later', input, time ?? delaySeconds]);
    const { body } = await send({
      method: 'POST',
      url: `${gatewayUrl}/${org}/${name}/${version}/run`,
      headers: {
        Authorization: `Bearer ${this.#serviceKey}`,
        'Content-Type': 'application/json',
        Prefer: 'respond-async',
        ...(time !== undefined && { 'X-Platform-Run-At': time }),
        ...(delaySeconds !== undefined && { 'X-Platform-Delay-Seconds': String(delaySeconds) }),
        ...(key !== undefined && { 'Idempotency-Key': key }),
      },
      limits: limit(this.#remaining(timeout)),
      retries: 0,
      body: JSON.stringify(input),
      makeError,
    });
    return body.run_id;
  }

  /** The address of the platform. Throws without it or a key. */
  #gateway() {
    if (this.#serviceKey && this.#gatewayUrl) return this.#gatewayUrl;
    const missing = this.#serviceKey ? 'PLATFORM_GATEWAY_URL' : 'PLATFORM_SERVICE_KEY';
    const failure = { code: 'UNAUTHORIZED' };
    throw new DependencyCallError(`${missing} is not set: only runs on the platform call other agents`, failure);
  }

  /**
   * The hops that remain for the called agent.
   *
   * @param {string} agent
   */
  #checkChain(agent) {
    const chain = (this.#context.callChain ?? '').split(',').map((ref) => ref.trim());
    if (chain.includes(agent)) {
      throw new CallChainCycleError(`${agent} waits for this agent already: ${chain.join(' -> ')}`, {
        code: 'DEPENDENCY_CYCLE',
      });
    }
    if (this.#context.maxHops === undefined) return undefined;
    const hops = Number(this.#context.maxHops) - 1;
    if (hops < 0) {
      throw new MaxHopsExceededError(`${agent} would make the chain of calls too long`, { code: 'MAX_HOPS_EXCEEDED' });
    }
    return hops;
  }

  /** @param {number} timeout */
  #remaining(timeout) {
    if (this.#context.deadlineMs === undefined) return timeout;
    const remaining = Number(this.#context.deadlineMs) - Date.now();
    if (remaining <= 0) throw new TimeoutExceededError('The deadline of this run has passed', { code: 'TIMEOUT' });
    return Math.min(timeout, remaining);
  }
}

/** @param {string} name */
const words = (name) => name.split(/(?=[A-Z])/);

/** @param {string} name */
const headerOf = (name) =>
  `X-Platform-${words(name)
    .map((word) => word[0]?.toUpperCase() + word.slice(1))
    .join('-')}`;
