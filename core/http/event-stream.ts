/** Interval at which events are flushed: each packet costs as much as its event. */
const PAUSE_MS = 10;
/** Maximum of buffered text, so that a slow reader cannot exhaust the memory. */
const MAX_QUEUED_CHARACTERS = 1024 * 1024;

/**
 * A stream of server-sent events (`docs/interface/calls.md#streams`): LF only, `event: NAME` and `data: TEXT` with one
 * space, a blank line after each. Writers never wait: once 1 MB is buffered, {@link EventStream.offer} drops further
 * events, so use it only for events that may be lost. If the reader disconnects, only the stream ends.
 */
export class EventStream implements AsyncIterable<Uint8Array>, AsyncIterator<Uint8Array, undefined> {
  #queue: string[] = [];
  #queued = 0;
  #isEnded = false;
  /** Set while the reader waits for a chunk. */
  #take: ((result: IteratorResult<Uint8Array, undefined>) => void) | undefined;
  #isSending = false;
  #pause: NodeJS.Timeout | undefined;

  /** Whether no further event is sent: it was ended, or the reader has disconnected. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Returns false if the buffer is full or the reader has disconnected. */
  offer(event: string, data: unknown): boolean {
    return this.offerText(record(event, JSON.stringify(data)));
  }

  /** The same for whole records in the form of another protocol. */
  offerText(records: string): boolean {
    if (this.#queued > MAX_QUEUED_CHARACTERS || this.#isEnded) return false;
    this.#push(records);
    return true;
  }

  /** Sends the last event, even if the buffer is full. `json` is sent unchanged. */
  end(event: string, json: string): void {
    this.endWithText(record(event, json));
  }

  /** The same for whole records in the form of another protocol. */
  endWithText(records: string): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#endPause();
    this.#push(records);
  }

  /** Supports one reader. Not a generator, whose steps cost as much as an event. */
  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Uint8Array, undefined>> {
    return new Promise((resolve) => {
      this.#take = resolve;
      this.#send();
    });
  }

  async return(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.#isEnded = true;
    this.#queue = [];
    this.#endPause();
    this.#send();
    return { done: true, value: undefined };
  }

  #push(text: string): void {
    this.#queue.push(text);
    this.#queued += text.length;
    if (this.#take === undefined || this.#pause !== undefined || this.#isSending) return;
    this.#isSending = true;
    // Flushes together with other events of the same tick.
    queueMicrotask(this.#send);
  }

  readonly #send = (): void => {
    this.#isSending = false;
    const take = this.#take;
    if (take === undefined || this.#pause !== undefined) return;
    const text = this.#queue.join('');
    if (text === '' && !this.#isEnded) return;
    this.#take = undefined;
    this.#queue = [];
    this.#queued = 0;
    if (!this.#isEnded) this.#pause = setTimeout(this.#afterPause, PAUSE_MS);
    take(text === '' ? { done: true, value: undefined } : { done: false, value: Buffer.from(text) });
  };

  readonly #afterPause = (): void => {
    this.#pause = undefined;
    this.#send();
  };

  #endPause(): void {
    clearTimeout(this.#pause);
    this.#pause = undefined;
  }
}

/** JSON text is one line: line ends inside it are escaped. */
const record = (event: string, json: string): string => `event: ${event}\ndata: ${json}\n\n`;
