/** Text of events that a reader has not fetched yet, at most; more would let a slow reader fill the memory. */
const MAX_QUEUED_CHARACTERS = 1024 * 1024;

/**
 * A stream of server-sent events (`contract.md` 1.2): LF only, `event: NAME` and `data: TEXT` with one space, a blank
 * line after each. Whoever writes never waits: events past 1 MB that nobody fetched are refused, so that only what may
 * be lost is sent with {@link EventStream.offer}. A reader who leaves stops nothing but the stream.
 */
export class EventStream implements AsyncIterable<Uint8Array> {
  #queue: string[] = [];
  #queued = 0;
  #isEnded = false;
  #wake: () => void = () => {};

  /** False when there is no room for it, or nobody reads any more. */
  offer(event: string, data: unknown): boolean {
    if (this.#queued > MAX_QUEUED_CHARACTERS || this.#isEnded) return false;
    this.#push(record(event, JSON.stringify(data)));
    return true;
  }

  /** The last event, whatever room there is. `json` is sent as it stands. */
  end(event: string, json: string): void {
    if (this.#isEnded) return;
    this.#push(record(event, json));
    this.#isEnded = true;
    this.#wake();
  }

  #push(text: string): void {
    this.#queue.push(text);
    this.#queued += text.length;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    try {
      for (;;) {
        const text = this.#queue.join('');
        this.#queue = [];
        this.#queued = 0;
        if (text !== '') yield Buffer.from(text);
        else if (this.#isEnded) return;
        else await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      this.#isEnded = true;
      this.#queue = [];
    }
  }
}

/** JSON has no line ends but escaped ones, so its text is one line. */
const record = (event: string, json: string): string => `event: ${event}\ndata: ${json}\n\n`;
