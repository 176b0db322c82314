export type Call = {
    id: string;
    /**
     * Aborted when the run is cancelled or reaches its deadline. With a `concurrency` of 1 the
     * program is ended instead.
     */
    signal: AbortSignal;
};
/**
 * @typedef {object} Call
 * @property {string} id
 * @property {AbortSignal} signal Aborted when the run is cancelled or reaches its deadline. With a `concurrency` of 1 the
 * program is ended instead.
 */
/**
 * Answers the inputs of the agent's runs: what `handler` returns, or resolves to, is the output; an error that it throws
 * fails that run alone. With `"reuse": "process"` in the manifest the program stays for further inputs, so that what it
 * has loaded and connected serves them, too; otherwise it answers one and ends. What it prints to stdout goes to the log.
 *
 * Call it once, when everything is loaded. Clients of this package use the rights of the current run: make them in the
 * handler.
 *
 * @template Input
 * @param {(input: Input, call: Call) => unknown} handler
 * @returns {Promise<void>} Resolves when there are no further inputs.
 */
export declare function serve<Input>(handler: (input: Input, call: Call) => unknown): Promise<void>;
