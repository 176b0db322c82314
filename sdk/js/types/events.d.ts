/**
 * Events of a run, for `for await`. Leaving the loop ends the request; the run continues.
 *
 * @template T
 */
export declare class Stream<T> {
    #private;
    /**
     * The run, as soon as it has begun.
     *
     * @type {string | null}
     */
    runId: string | null;
    /** @param {(stream: Stream<T>, signal: AbortSignal) => AsyncGenerator<T, void, void>} eventsOf */
    constructor(eventsOf: (stream: Stream<T>, signal: AbortSignal) => AsyncGenerator<T, void, void>);
    [Symbol.asyncIterator](): this;
    /** @returns {Promise<IteratorResult<T, void>>} */
    next(): Promise<IteratorResult<T, void>>;
    /** @returns {Promise<IteratorResult<T, void>>} */
    return(): Promise<IteratorResult<T, void>>;
    /** Ends the request, also while another part of the program waits for an event. */
    close(): Promise<void>;
}
/**
 * The records of a stream of server-sent events; comments and records without data are skipped.
 *
 * @param {Response} response
 */
export declare function recordsOf(response: Response): AsyncGenerator<{
    id: string | undefined;
    event: string;
    data: string;
}, void, unknown>;
