import { errorOf } from './errors.js';
import { piecesOf } from './http.js';

const MAX_EVENT_CHARACTERS = 64 * 1024 * 1024;

/**
 * Events of a run, for `for await`. Leaving the loop ends the request; the run continues.
 *
 * @template T
 */
export class Stream {
  /** @type {AsyncGenerator<T, void, void>} */
  #events;
  #controller = new AbortController();

  /** @param {(stream: Stream<T>, signal: AbortSignal) => AsyncGenerator<T, void, void>} eventsOf */
  constructor(eventsOf) {
    /**
     * The run, as soon as it has begun.
     *
     * @type {string | null}
     */
    this.runId = null;
    this.#events = eventsOf(this, this.#controller.signal);
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  /** @returns {Promise<IteratorResult<T, void>>} */
  async next() {
    try {
      return await this.#events.next();
    } catch (error) {
      if (this.#controller.signal.aborted) return { done: true, value: undefined };
      throw error;
    }
  }

  /** @returns {Promise<IteratorResult<T, void>>} */
  async return() {
    await this.close();
    return { done: true, value: undefined };
  }

  /** Ends the request, also while another part of the program waits for an event. */
  async close() {
    this.#controller.abort();
    await this.#events.return().catch(() => {});
  }
}

/**
 * The records of a stream of server-sent events; comments and records without data are skipped.
 *
 * @param {Response} response
 */
export async function* recordsOf(response) {
  const decoder = new TextDecoder();
  let text = '';
  for await (const piece of piecesOf(response, Number.POSITIVE_INFINITY)) {
    text += decoder.decode(piece, { stream: true });
    if (text.length > MAX_EVENT_CHARACTERS) {
      const message = `An event of the stream has more than ${MAX_EVENT_CHARACTERS} characters`;
      throw errorOf(message, { code: 'ANSWER_TOO_LARGE', status: response.status });
    }
    // The search for an end would start again at each piece of a long record.
    if (!text.includes('\n\n', Math.max(0, text.length - piece.length - 1))) continue;
    const records = text.split('\n\n');
    text = records.pop() ?? '';
    for (const record of records) {
      const fields = record.split('\n').map((line) => /^(\w*): ?(.*)$/s.exec(line) ?? []);
      const data = fields.filter(([, field]) => field === 'data').map(([, , value]) => value);
      const event = fields.find(([, field]) => field === 'event')?.[2] ?? 'message';
      const id = fields.find(([, field]) => field === 'id')?.[2];
      if (data.length > 0) yield { id, event, data: data.join('\n') };
    }
  }
}
