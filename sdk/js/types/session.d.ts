/**
 * @template [Data=any]
 * @typedef {import('./platform.js').Answer<Data>} Answer
 */
export type Answer<Data = any> = import('./platform.js').Answer<Data>;
export type CallOptions = import('./platform.js').CallOptions;
export type Query = import('./platform.js').Query;
export type RequestOptions = import('./platform.js').RequestOptions;
export type SendOptions = Omit<CallOptions, 'endpoint' | 'files'>;
export type SessionOptions = {
    /**
     * Your customer, to whom the session belongs. Each request for it names the same.
     */
    tenant?: string;
    title?: string;
    metadata?: Record<string, string>;
    /**
     * Days that the session is kept after its last message.
     */
    ttlDays?: number;
    /**
     * What becomes of a message while another one is answered.
     */
    busy?: 'enqueue' | 'reject' | 'interrupt' | 'steer';
};
export type Channel = {
    call: (target: Target, options: CallOptions) => Promise<Answer>;
    stream: (target: () => Promise<Target>, options: CallOptions) => import('./events.js').Stream<any>;
    request: (method: string, path: string, options: RequestOptions & {
        body?: unknown;
    }) => Promise<any>;
    list: (path: string, query: Query, options: RequestOptions) => AsyncGenerator<any, void, void>;
};
export type Target = {
    name: string;
    path: string;
    input: unknown;
};
/**
 * A conversation with an agent. Each message is a call; the agent gets the earlier ones with it. It is opened by its first
 * message, or found by the name that the program gave it.
 *
 * @template {string} [Name=string]
 */
export declare class Session<Name extends string = string> {
    #private;
    /**
     * @param {Channel} channel
     * @param {Name} agent
     * @param {string | undefined} name
     * @param {SessionOptions} options
     */
    constructor(channel: Channel, agent: Name, name: string | undefined, { tenant, title, metadata, ttlDays, busy }: SessionOptions);
    /**
     * The platform's id of the session, which is opened if it is not yet.
     *
     * @param {RequestOptions} [options]
     * @returns {Promise<string>}
     */
    id(options?: RequestOptions): Promise<string>;
    /**
     * Sends a message and waits for its answer.
     *
     * @param {string | import('agent-platform-sdk/agents').InputOf<Name>} message A text, which fills the agent's text of the
     * input, or the whole input.
     * @param {SendOptions} [options]
     * @returns {Promise<Answer<import('agent-platform-sdk/agents').OutputOf<Name>>>}
     */
    send(message: string | import('agent-platform-sdk/agents').InputOf<Name>, options?: SendOptions): Promise<Answer<import('agent-platform-sdk/agents').OutputOf<Name>>>;
    /**
     * Sends a message and yields its events; the last one has the type `result`. See `Platform.stream`.
     *
     * @param {string | import('agent-platform-sdk/agents').InputOf<Name>} message
     * @param {SendOptions} [options]
     * @returns {import('./events.js').Stream<
     *   import('./platform.js').Progress | import('./platform.js').Result<import('agent-platform-sdk/agents').OutputOf<Name>>
     * >}
     */
    stream(message: string | import('agent-platform-sdk/agents').InputOf<Name>, options?: SendOptions): import('./events.js').Stream<import('./platform.js').Progress | import('./platform.js').Result<import('agent-platform-sdk/agents').OutputOf<Name>>>;
    /**
     * The messages of the session with their answers, from the first one on.
     *
     * @param {Query} [query] `order` is `asc` or `desc`; `limit` is the number of messages in a page.
     * @param {RequestOptions} [options]
     * @returns {AsyncGenerator<any, void, void>}
     */
    messages(query?: Query, options?: RequestOptions): AsyncGenerator<any, void, void>;
    /**
     * A new session that begins with the first `after` messages of this one.
     *
     * @param {number} after
     * @param {RequestOptions & { title?: string }} [options]
     * @returns {Promise<Session<Name>>}
     */
    fork(after: number, { title, ...options }?: RequestOptions & {
        title?: string;
    }): Promise<Session<Name>>;
    /**
     * Cancels the run that answers a message now.
     *
     * @param {RequestOptions} [options]
     * @returns {Promise<string | null>} The id of the run; null if there is none.
     */
    interrupt(options?: RequestOptions): Promise<string | null>;
    /**
     * Erases the session with all that was said in it.
     *
     * @param {RequestOptions} [options]
     * @returns {Promise<void>}
     */
    delete(options?: RequestOptions): Promise<void>;
}
