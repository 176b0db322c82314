import { Stream } from './events.js';
import { Session } from './session.js';
export type Answer<Data = any> = {
    data: Data;
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
export type RequestOptions = {
    /**
     * Milliseconds for all attempts together. Default: the client's timeout, 300 000. Calls and
     * streams of runs that go on after the platform's answer have no limit unless it is given.
     */
    timeout?: number;
    /**
     * Default: the client's number of retries, 2.
     */
    maxRetries?: number;
    /**
     * Ends the request.
     */
    signal?: AbortSignal;
    /**
     * Additional headers, such as `X-Platform-Skills`.
     */
    headers?: Record<string, string>;
};
export type OwnCallOptions = {
    /**
     * Default: `run`.
     */
    endpoint?: string;
    /**
     * Paths, names and contents, or uploads. With files, the input
     * reaches the agent as `metadata` beside them.
     */
    files?: readonly import('./upload.js').File[];
    /**
     * A repeated call with the same key gets the answer of the first. Default: a new key,
     * which the retries of this call share.
     */
    idempotencyKey?: string;
};
export type CallOptions = RequestOptions & OwnCallOptions;
export type OwnStartOptions = {
    /**
     * Address to which the run's end is posted.
     */
    webhook?: string;
    /**
     * When the run begins: at most 30 days ahead, a text with an offset.
     */
    runAt?: Date | string;
    /**
     * The same as seconds from now.
     */
    delaySeconds?: number;
    /**
     * From -10 to 10: among runs that wait for their turn, higher ones begin first.
     */
    priority?: number;
};
export type StartOptions = CallOptions & OwnStartOptions;
export type Progress = {
    type: string;
    [member: string]: any;
};
export type Result<Data = any> = {
    type: 'result';
} & Answer<Data>;
export type Event = {
    id: string;
    type: string;
    created_at: string;
    data: Record<string, any>;
};
export type Query = Record<string, string | number | boolean | undefined>;
export type Target = import('./session.js').Target;
export type SessionOptions = import('./session.js').SessionOptions;
export type PlatformOptions = {
    /**
     * Default: `PLATFORM_API_KEY`.
     */
    apiKey?: string;
    /**
     * Default: `PLATFORM_API_URL`.
     */
    url?: string;
    /**
     * The workspace to act in. Default: the workspace of the key.
     */
    workspaceId?: string;
    /**
     * Milliseconds, default 300 000.
     */
    timeout?: number;
    /**
     * Default 2.
     */
    maxRetries?: number;
};
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
export declare class Platform {
    #private;
    /** @param {PlatformOptions} [options] */
    constructor({ apiKey, url, workspaceId, timeout, maxRetries, }?: PlatformOptions);
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
    call<Name extends string>(agent: Name, input?: import('agent-platform-sdk/agents').InputOf<Name>, options?: CallOptions): Promise<Answer<import('agent-platform-sdk/agents').OutputOf<Name>>>;
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
    stream<Name extends string>(agent: Name, input?: import('agent-platform-sdk/agents').InputOf<Name>, options?: CallOptions): Stream<Progress | Result<import('agent-platform-sdk/agents').OutputOf<Name>>>;
    /**
     * Starts a call without waiting for its answer.
     *
     * @template {string} Name
     * @param {Name} agent
     * @param {import('agent-platform-sdk/agents').InputOf<Name>} [input]
     * @param {StartOptions} [options]
     * @returns {Promise<Run>}
     */
    start<Name extends string>(agent: Name, input?: import('agent-platform-sdk/agents').InputOf<Name>, { webhook, runAt, delaySeconds, priority, ...options }?: StartOptions): Promise<Run>;
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
    session<Name extends string>(agent: Name, name?: string, options?: SessionOptions): Session<Name>;
    /**
     * The sessions of the workspace, newest first.
     *
     * @param {Query} [query] Filters, such as `agent` and `tenant_id`.
     * @param {RequestOptions} [options]
     */
    sessions(query?: Query, options?: RequestOptions): AsyncGenerator<any, void, void>;
    /**
     * Waits for the answer of a run.
     *
     * @param {Run | string} run A started call, or the ID of any run of the workspace.
     * @param {RequestOptions} [options]
     * @returns {Promise<Answer>}
     */
    wait(run: Run | string, options?: RequestOptions): Promise<Answer>;
    /**
     * The events of a run, from its beginning to its end. A connection that is lost is made again without a gap.
     *
     * @param {Run | string} run A started call, or the ID of any run of the workspace.
     * @param {RequestOptions & { after?: string }} [options] `after` is the `id` of the last event that is known. `timeout`
     * limits the time in all; there is none by default.
     * @returns {Stream<Event>}
     */
    watch(run: Run | string, options?: RequestOptions & {
        after?: string;
    }): Stream<Event>;
    /**
     * Cancels a run and the calls below it. Does nothing if it has ended.
     *
     * @param {Run | string} run
     * @param {RequestOptions} [options]
     * @returns {Promise<void>}
     */
    cancel(run: Run | string, options?: RequestOptions): Promise<void>;
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
    replay(run: Run | string, { input, agentVersion, fromTurn, message, toolResults, model, ...options }?: RequestOptions & {
        input?: object;
        agentVersion?: string;
        fromTurn?: number;
        message?: string;
        toolResults?: {
            turn: number;
            call: number;
            text: string;
        }[];
        model?: string;
    }): Promise<Run>;
    /**
     * Creates a link that shows a run, read-only, to people without an account. Only owners of the workspace may.
     *
     * @param {Run | string} run
     * @param {RequestOptions & { expiresInDays?: number }} [options] `expiresInDays`: from 1 to 30. Default: 7.
     * @returns {Promise<any>} `id`, `expires_at`, and `url`, the link, which no later answer contains.
     */
    share(run: Run | string, { expiresInDays, ...options }?: RequestOptions & {
        expiresInDays?: number;
    }): Promise<any>;
    /**
     * The valid links to a run.
     *
     * @param {Run | string} run
     * @param {RequestOptions} [options]
     */
    shares(run: Run | string, options?: RequestOptions): AsyncGenerator<any, void, void>;
    /**
     * Revokes a link to a run at once.
     *
     * @param {Run | string} run
     * @param {string} share ID of the link.
     * @param {RequestOptions} [options]
     * @returns {Promise<void>}
     */
    revokeShare(run: Run | string, share: string, options?: RequestOptions): Promise<void>;
    /**
     * Scores a run. A score with the same name and source is replaced.
     *
     * @param {Run | string} run
     * @param {string} name What is scored, such as `helpful`.
     * @param {number | string} score A number, or a label such as `too short`.
     * @param {RequestOptions & { comment?: string, source?: string }} [options] `source`: who or what scored. Default: `api`.
     * @returns {Promise<any>} The score as stored.
     */
    score(run: Run | string, name: string, score: number | string, { comment, source, ...options }?: RequestOptions & {
        comment?: string;
        source?: string;
    }): Promise<any>;
    /**
     * The scores of a run, oldest first.
     *
     * @param {Run | string} run
     * @param {RequestOptions} [options]
     */
    scores(run: Run | string, options?: RequestOptions): AsyncGenerator<any, void, void>;
    /**
     * Uploads a file once, for the `files` of any number of calls until it expires.
     *
     * @param {Exclude<import('./upload.js').File, import('./upload.js').Upload>} file
     * @param {RequestOptions} [options]
     * @returns {Promise<import('./upload.js').Upload>}
     */
    upload(file: Exclude<import('./upload.js').File, import('./upload.js').Upload>, options?: RequestOptions): Promise<import('./upload.js').Upload>;
    /**
     * Writes the answer of a path, such as the bundle of an agent, to a file, however large it is. The file appears when it
     * is complete.
     *
     * @param {string} path A path of the API. `{workspace_id}` in it stands for the workspace of the client.
     * @param {string} target
     * @param {RequestOptions & { query?: Query }} [options]
     * @returns {Promise<number>} The number of its bytes.
     */
    download(path: string, target: string, options?: RequestOptions & {
        query?: Query;
    }): Promise<number>;
    /**
     * Sends any request of the API and returns its answer, as parsed JSON.
     *
     * @param {string} method
     * @param {string} path `{workspace_id}` in it stands for the workspace of the client.
     * @param {RequestOptions & { query?: Query, body?: unknown }} [options]
     * @returns {Promise<any>}
     */
    request(method: string, path: string, options?: RequestOptions & {
        query?: Query;
        body?: unknown;
    }): Promise<any>;
    /**
     * Every row of any listing of the API, page by page.
     *
     * @param {string} path `{workspace_id}` in it stands for the workspace of the client.
     * @param {Query} [query] Filters; `limit` is the number of rows in a page.
     * @param {RequestOptions} [options]
     * @returns {AsyncGenerator<any, void, void>}
     */
    list(path: string, query?: Query, options?: RequestOptions): AsyncGenerator<any, void, void>;
    /**
     * The agents of the workspace, each in its latest version.
     *
     * @param {Query} [query]
     * @param {RequestOptions} [options]
     */
    agents(query?: Query, options?: RequestOptions): AsyncGenerator<any, void, void>;
    /**
     * The runs of the workspace, newest first.
     *
     * @param {Query} [query] Filters, such as `agent_name` and `status`.
     * @param {RequestOptions} [options]
     */
    runs(query?: Query, options?: RequestOptions): AsyncGenerator<any, void, void>;
    /**
     * @param {Query} [query]
     * @param {RequestOptions} [options]
     */
    schedules(query?: Query, options?: RequestOptions): AsyncGenerator<any, void, void>;
    /**
     * @param {Query} [query]
     * @param {RequestOptions} [options]
     */
    services(query?: Query, options?: RequestOptions): AsyncGenerator<any, void, void>;
    /**
     * @param {Query} [query]
     * @param {RequestOptions} [options]
     */
    tasks(query?: Query, options?: RequestOptions): AsyncGenerator<any, void, void>;
    /**
     * @param {Query} [query]
     * @param {RequestOptions} [options]
     */
    messages(query?: Query, options?: RequestOptions): AsyncGenerator<any, void, void>;
}
