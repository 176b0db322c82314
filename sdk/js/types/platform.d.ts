export type Answer = {
    data: any;
    warnings: {
        code: string;
        field?: string;
        message: string;
    }[];
    metadata: Record<string, any>;
    /**
     * Names the run in the workspace's logs.
     */
    runId: string | null;
};
export type Run = {
    id: string;
    url: string;
};
export type CallOptions = {
    /**
     * Default: `run`.
     */
    endpoint?: string;
    /**
     * Paths, or names and
     * contents. With files, the input reaches the agent as `metadata` beside them.
     */
    files?: readonly (string | {
        name: string;
        content: string | Uint8Array | Blob;
    })[];
    /**
     * A repeated call with the same key gets the answer of the first.
     */
    idempotencyKey?: string;
    /**
     * Additional headers, such as `X-Platform-Skills`.
     */
    headers?: Record<string, string>;
    /**
     * Milliseconds, default 300 000.
     */
    timeout?: number;
};
export type Progress = {
    type: string;
    [member: string]: any;
};
export type Result = {
    type: 'result';
} & Answer;
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
export declare class Platform {
    #private;
    /**
     * @param {{ apiKey?: string, url?: string, workspaceId?: string }} [options] `apiKey` and `url` come from
     * `PLATFORM_API_KEY` and `PLATFORM_API_URL` by default.
     */
    constructor({ apiKey, url, workspaceId }?: {
        apiKey?: string;
        url?: string;
        workspaceId?: string;
    });
    /**
     * Calls an agent and waits for its answer.
     *
     * @param {string} agent
     * @param {object} [input]
     * @param {CallOptions} [options]
     * @returns {Promise<Answer>}
     */
    call(agent: string, input?: object, options?: CallOptions): Promise<Answer>;
    /**
     * Calls an agent and yields its events; the last one has the type `result`. The call continues if the caller stops
     * reading.
     *
     * @param {string} agent
     * @param {object} [input]
     * @param {CallOptions} [options]
     * @returns {AsyncGenerator<Progress | Result, void, void>}
     */
    stream(agent: string, input?: object, options?: CallOptions): AsyncGenerator<Progress | Result, void, void>;
    /**
     * Starts a call without waiting for its answer.
     *
     * @param {string} agent
     * @param {object} [input]
     * @param {CallOptions} [options]
     * @returns {Promise<Run>}
     */
    start(agent: string, input?: object, options?: CallOptions): Promise<Run>;
    /**
     * Waits for the answer of a started call.
     *
     * @param {Run} run
     * @param {{ timeout?: number }} [options]
     * @returns {Promise<Answer>}
     */
    wait(run: Run, { timeout }?: {
        timeout?: number;
    }): Promise<Answer>;
    /**
     * Cancels a started call and the calls below it. Does nothing if the call has ended.
     *
     * @param {Run} run
     * @returns {Promise<void>}
     */
    cancel(run: Run): Promise<void>;
}
