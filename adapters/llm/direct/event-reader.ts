import { StringDecoder } from 'node:string_decoder';

/**
 * Reads the data of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream)
 * from the chunks of an answer. Names, ids and comments are skipped: providers say in the data what an event is.
 */
export class EventReader {
  readonly #decoder = new StringDecoder();
  /** Of a line that has not ended. */
  #pieces: string[] = [];
  #isFirst = true;
  #endedWithReturn = false;
  #data: string | undefined;

  /** The data of the events that are complete with this chunk, without those that are empty. */
  push(chunk: Buffer): string[] {
    let text = this.#decoder.write(chunk);
    if (text === '') return [];
    if (this.#isFirst && text.startsWith('\ufeff')) text = text.slice(1);
    this.#isFirst = false;
    // A line end may be cut in two.
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
