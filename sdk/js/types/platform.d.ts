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
     * `run` if not given.
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
     * A call that is repeated with the same key is answered as the first one was.
     */
    idempotencyKey?: string;
    /**
     * Further ones, such as `X-Platform-Skills`.
     */
    headers?: Record<string, string>;
    /**
     * Milliseconds, 300 000 if not given.
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
 * @typedef {object} Answer What came of a call.
 * @property {any} data
 * @property {{ code: string, field?: string, message: string }[]} warnings
 * @property {Record<string, any>} metadata
 * @property {string | null} runId Names the run in the workspace's logs.
 */
/**
 * @typedef {object} Run A call that goes on without its caller.
 * @property {string} id
 * @property {string} url
 */
/**
 * @typedef {object} CallOptions
 * @property {string} [endpoint] `run` if not given.
 * @property {readonly (string | { name: string, content: string | Uint8Array | Blob })[]} [files] Paths, or names and
 * contents. With files, the input reaches the agent as `metadata` beside them.
 * @property {string} [idempotencyKey] A call that is repeated with the same key is answered as the first one was.
 * @property {Record<string, string>} [headers] Further ones, such as `X-Platform-Skills`.
 * @property {number} [timeout] Milliseconds, 300 000 if not given.
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
     * `PLATFORM_API_KEY` and `PLATFORM_API_URL` where they are not given.
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
     * Calls an agent and tells what happens: events, at last one of the type `result`. The call goes on when nobody
     * listens any more.
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
     * The answer of a started call, once it is there.
     *
     * @param {Run} run
     * @param {{ timeout?: number }} [options]
     * @returns {Promise<Answer>}
     */
    wait(run: Run, { timeout }?: {
        timeout?: number;
    }): Promise<Answer>;
    /**
     * Ends a started call and all it has called. Nothing happens to one that has ended.
     *
     * @param {Run} run
     * @returns {Promise<void>}
     */
    cancel(run: Run): Promise<void>;
}
