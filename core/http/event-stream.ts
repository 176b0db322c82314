/** Events that follow one sooner are sent together: each packet costs as much as its event. */
const PAUSE_MS = 1;
/** Maximum of buffered text, so that a slow reader cannot fill the memory. */
const MAX_QUEUED_CHARACTERS = 1024 * 1024;

/**
 * A stream of server-sent events (`docs/interface/calls.md#streams`): LF only, `event: NAME` and `data: TEXT` with one
 * space, a blank line after each. Writers never wait: once 1 MB is buffered, {@link EventStream.offer} drops further
 * events, so use it only for events that may be lost. A reader that leaves ends only the stream.
 */
export class EventStream implements AsyncIterable<Uint8Array> {
  #queue: string[] = [];
  #queued = 0;
  #isEnded = false;
  #wake: () => void = () => {};
  #endPause: () => void = () => {};

  /** Returns false if the buffer is full or the reader has left. */
  offer(event: string, data: unknown): boolean {
    if (this.#queued > MAX_QUEUED_CHARACTERS || this.#isEnded) return false;
    this.#push(record(event, JSON.stringify(data)));
    return true;
  }

  /** Sends the last event, even if the buffer is full. `json` is sent unchanged. */
  end(event: string, json: string): void {
    if (this.#isEnded) return;
    this.#push(record(event, json));
    this.#isEnded = true;
    this.#wake();
    this.#endPause();
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
        if (text !== '') {
          yield Buffer.from(text);
          await this.#pause();
        } else if (this.#isEnded) return;
        else await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      this.#isEnded = true;
      this.#queue = [];
    }
  }

  /** Ends with the stream, too. */
  #pause(): Promise<void> | undefined {
    if (this.#isEnded) return undefined;
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, PAUSE_MS);
      this.#endPause = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** JSON text is one line: line ends inside it are escaped. */
const record = (event: string, json: string): string => `event: ${event}\ndata: ${json}\n\n`;
