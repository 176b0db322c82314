import type { ProgressEvent } from '#core/execution/engines/progress.ts';

/** Where the text of an answer goes. */
export interface TextSink {
  reasoning(text: string): void;
  text(text: string): void;
  /** What follows is another text: the agent has used tools in between. */
  endText(): void;
}

/**
 * Turns the progress of a run into text that is never taken back, as these protocols have it. What a model says again after
 * an interruption is not sent twice.
 */
export class LiveText {
  readonly #sink: TextSink;
  readonly #isLive: boolean;
  /** The text that is sent, since the last tool. */
  #sent = '';
  /** The text before the last tool. */
  #before = '';
  /** What the model has said again; `undefined` if the text that is sent counts. */
  #again: string | undefined;

  /** @param isLive Whether the model's text is the answer: with a schema for its output, its text is JSON. */
  constructor(sink: TextSink, isLive: boolean) {
    this.#sink = sink;
    this.#isLive = isLive;
  }

  push(event: ProgressEvent): void {
    if (event.type === 'reasoning_delta') this.#sink.reasoning(event.text);
    if (!this.#isLive) return;
    if (event.type === 'text_delta') this.#say(event.text);
    else if (event.type === 'tool_call' || event.type === 'turn_start') this.#end();
    else if (event.type === 'retry' && this.#sent !== '') this.#again = '';
  }

  /** Sends what the answer has beyond the text so far. */
  finish(answer: string): void {
    if (this.#sent !== '') {
      const isRest = answer.startsWith(this.#sent);
      if (isRest) this.#send(answer.slice(this.#sent.length));
      // A reply that is JSON was sent as the model wrote it.
      if (isRest || this.#again === undefined || this.#again === this.#sent) return;
      this.#end();
    }
    if (answer.trim() !== this.#before.trim()) this.#send(answer);
  }

  #say(text: string): void {
    if (this.#again === undefined) {
      this.#send(text);
      return;
    }
    const again = this.#again + text;
    this.#again = again;
    if (this.#sent.startsWith(again)) return;
    this.#again = undefined;
    if (!again.startsWith(this.#sent)) this.#end();
    this.#send(again.slice(this.#sent.length));
  }

  #send(text: string): void {
    if (text === '') return;
    this.#sent += text;
    this.#sink.text(text);
  }

  #end(): void {
    this.#again = undefined;
    if (this.#sent === '') return;
    this.#before = this.#sent;
    this.#sent = '';
    this.#sink.endText();
  }
}
