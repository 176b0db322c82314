import { StringDecoder } from 'node:string_decoder';

/**
 * Reads the data of server-sent events
 * (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream) from the chunks of a
 * response. Names, ids and comments are skipped: providers put the type of an event into its data.
 */
export class EventReader {
  readonly #decoder = new StringDecoder();
  /** Pieces of an incomplete line. */
  #pieces: string[] = [];
  #isFirst = true;
  #endedWithReturn = false;
  #data: string | undefined;

  /** Returns the data of the events that this chunk completes, without empty ones. */
  push(chunk: Buffer): string[] {
    let text = this.#decoder.write(chunk);
    if (text === '') return [];
    if (this.#isFirst && text.startsWith('\ufeff')) text = text.slice(1);
    this.#isFirst = false;
    // A CRLF may be split across chunks.
    if (this.#endedWithReturn && text.startsWith('\n')) text = text.slice(1);
    this.#endedWithReturn = text.endsWith('\r');
    if (text.includes('\r')) text = text.replaceAll(/\r\n?/g, '\n');
    const events: string[] = [];
    let start = 0;
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', start)) {
      this.#pieces.push(text.slice(start, end));
      start = end + 1;
      this.#line(this.#pieces.length === 1 ? this.#pieces[0]! : this.#pieces.join(''), events);
      this.#pieces = [];
    }
    if (start < text.length) this.#pieces.push(text.slice(start));
    return events;
  }

  #line(line: string, events: string[]): void {
    if (line === '') {
      if (this.#data) events.push(this.#data);
      this.#data = undefined;
    } else if (line.startsWith('data:')) {
      const value = line.slice(line.startsWith('data: ') ? 6 : 5);
      this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`;
    }
  }
}
