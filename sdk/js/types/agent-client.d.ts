export type AgentClientOptions = {
    serviceKey?: string;
    gatewayUrl?: string;
    /**
     * References; the last one is the running agent's own.
     */
    callChain?: string | readonly string[] | null;
    callChainSig?: string | null;
    /**
     * Epoch milliseconds.
     */
    deadlineMs?: number | string | null;
    /**
     * Max levels of calls below this agent.
     */
    maxHops?: number | string | null;
    downstreamRemaining?: number | string | null;
    requestId?: string | null;
    billingOrgId?: string | null;
    billingOrgSig?: string | null;
    rootRunId?: string | null;
};
export type AgentCallOptions = {
    /**
     * Default: `run`.
     */
    endpoint?: string;
    /**
     * Milliseconds, default 30 000. The deadline of the run limits it.
     */
    timeout?: number;
    /**
     * Default 0: retries at each level of a chain would multiply.
     */
    maxRetries?: number;
    /**
     * Ends the request.
     */
    signal?: AbortSignal;
};
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
export declare class AgentClient {
    #private;
    /** @param {AgentClientOptions} [options] */
    constructor(options?: AgentClientOptions);
    /**
     * A client that continues the chain of an incoming call. Accepts requests of `node:http`, Express and fetch.
     *
     * @param {{ headers: Headers | Record<string, string | string[] | undefined> }} request
     * @param {Pick<AgentClientOptions, 'serviceKey' | 'gatewayUrl'>} [options]
     */
    static fromRequest(request: {
        headers: Headers | Record<string, string | string[] | undefined>;
    }, options?: Pick<AgentClientOptions, 'serviceKey' | 'gatewayUrl'>): AgentClient;
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
    call<Name extends string>(agent: Name, input?: import('agent-platform-sdk/agents').InputOf<Name>, { endpoint, timeout, maxRetries, signal }?: AgentCallOptions): Promise<import('agent-platform-sdk/agents').OutputOf<Name>>;
    /**
     * Makes calls at once, each an agent and its input, and returns their data in the same order. Waits for all of them;
     * then throws the error of the first one, in this order, that failed.
     *
     * @param {Iterable<readonly [agent: string, input?: object]>} calls
     * @param {AgentCallOptions} [options]
     * @returns {Promise<any[]>}
     */
    callAll(calls: Iterable<readonly [agent: string, input?: object]>, options?: AgentCallOptions): Promise<any[]>;
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
    later(input: object, { runAt, delaySeconds, timeout }: {
        runAt?: Date | string;
        delaySeconds?: number;
        timeout?: number;
    }): Promise<string>;
}
