export type Known = {
    position: number;
    kind: string;
    /**
     * Name of the step or event, or the question.
     */
    text: string;
    number: number;
    status: 'done' | 'failed' | 'waiting' | 'suspended' | 'started';
    value: any;
    error?: {
        code: string;
        message: string;
    };
};
export type Task = {
    /**
     * What a step does.
     */
    work?: () => unknown;
    /**
     * What the platform waits for.
     */
    wait?: object;
};
export type Begun = {
    kind: string;
    /**
     * Name of the step or event, or the question.
     */
    text: string;
    number: number;
    task: Task;
    state: 'begun' | 'working' | 'waiting';
    resolve: (value: any) => void;
    reject: (error: unknown) => void;
};
/**
 * Does something once in a run: its value is kept, and when the program is started again, `work` is not called again.
 * A step that throws is not kept. The value is JSON of at most 1 MB. Outside of runs, `work` is only called.
 *
 * @template T
 * @param {string} name
 * @param {() => T | Promise<T>} work
 * @returns {Promise<T>}
 * @throws {StepOrderError}
 * @throws {PlatformError} if the value cannot be kept
 */
export declare function step<T>(name: string, work: () => T | Promise<T>): Promise<T>;
/**
 * Lets time pass. For more than 30 seconds the program ends, and is started again from its top when the time has come:
 * meanwhile it uses nothing.
 *
 * @param {number | Date | string} time Seconds, or a time; a text has an offset.
 * @returns {Promise<void>}
 */
export declare function sleep(time: number | Date | string): Promise<void>;
/**
 * Asks a person, and returns the answer. The program ends while it waits, and is started again from its top.
 *
 * @param {string} question The same whenever the program is started: it names the question.
 * @param {object} [options]
 * @param {readonly string[]} [options.options] Answers to choose from.
 * @param {object} [options.schema] JSON Schema of the answer, in place of `options`.
 * @param {number} [options.timeoutSeconds] Default: as long as the run may wait.
 * @returns {Promise<any>} A text, unless there is a schema.
 * @throws {TimeoutExceededError} if nobody answers in time
 */
export declare function askHuman(question: string, { options, schema, timeoutSeconds }?: {
    options?: readonly string[];
    schema?: object;
    timeoutSeconds?: number;
}): Promise<any>;
/**
 * Returns the address at which somebody can say that an event of this run has happened, by a POST request with JSON. It is the
 * same for the same name, and the only credential: give it to nobody else.
 *
 * @param {string} name 1 to 64 of `a-z`, `0-9`, `-` and `_`.
 * @returns {Promise<string>}
 */
export declare const eventUrl: (name: string) => Promise<string>;
/**
 * Waits until an event happens that has an address, and returns the JSON that came with it. The program ends while it waits,
 * and is started again from its top. An event that has happened before is kept.
 *
 * @param {string} name
 * @param {object} [options]
 * @param {number} [options.timeoutSeconds] Default: as long as the run may wait.
 * @returns {Promise<any>}
 * @throws {TimeoutExceededError} if it does not happen in time
 */
export declare const waitForEvent: (name: string, { timeoutSeconds }?: {
    timeoutSeconds?: number;
}) => Promise<any>;
