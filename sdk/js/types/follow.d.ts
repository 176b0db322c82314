import { TimeoutExceededError } from './errors.js';
/** A run is followed over so many failed connections in a row: a platform that starts again takes some seconds. */
export declare const FOLLOW_RETRIES = 10;
/**
 * Waits for the end of a run. Throws the error that a call of it would.
 *
 * @param {string} id
 * @param {import('./http.js').Request} request Reads the run.
 * @returns {Promise<import('./platform.js').Answer>} What a call of it would have been answered, as far as its record says.
 */
export declare function answerOf(id: string, request: import('./http.js').Request): Promise<import('./platform.js').Answer>;
/**
 * @param {string} message
 * @param {string} runId
 */
export declare const late: (message: string, runId: string) => TimeoutExceededError;
