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
     * Calls `org/agent@v1` and returns its data. Any number of calls may run at once.
     *
     * @param {string} agent
     * @param {object} [input]
     * @param {AgentCallOptions} [options]
     * @returns {Promise<any>}
     * @throws {DependencyCallError}
     * @throws {TimeoutExceededError}
     * @throws {CallChainCycleError}
     * @throws {MaxHopsExceededError}
     * @throws {TypeError} for a reference of another form
     */
    call(agent: string, input?: object, { endpoint, timeout }?: AgentCallOptions): Promise<any>;
}
