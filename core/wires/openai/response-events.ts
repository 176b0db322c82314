import type { TextSink } from './live-text.ts';
import {
  itemView,
  type OutputItem,
  partView,
  type ResponseEnd,
  type ResponseHead,
  type ResponseStatus,
  responseObject,
} from './response-object.ts';

type Fields = { readonly [member: string]: unknown };

/**
 * Writes the events of a response. Their numbers follow from what happened alone, and not from the pieces in which it came:
 * an event counts one, and a piece of text its characters. So a client that lost its stream names the last number that it
 * got, and another process sends what follows.
 */
export class ResponseEvents implements TextSink {
  readonly #head: ResponseHead;
  readonly #send: (records: string) => void;
  readonly #after: number;
  readonly #items: OutputItem[] = [];
  #number = -1;

  /** @param after Number of the last event that the client got. @default - none */
  constructor(head: ResponseHead, send: (records: string) => void, after = -1) {
    this.#head = head;
    this.#send = send;
    this.#after = after;
  }

  begin(): void {
    const response = this.#response({ status: 'in_progress' });
    this.#event('response.created', { response });
    this.#event('response.in_progress', { response });
  }

  reasoning(text: string): void {
    this.#add('reasoning', text);
  }

  text(text: string): void {
    this.#add('message', text);
  }

  endText(): void {
    this.#close(true);
  }

  /** Returns the last records. */
  end(end: Omit<ResponseEnd, 'output'>): void {
    const isAnswered = end.status === 'completed' || end.status === 'incomplete';
    // Clients look for a message, also where an agent had nothing to say.
    if (isAnswered && this.#items.at(-1)?.type !== 'message') this.#open('message');
    this.#close(false);
    this.#event(`response.${eventOf(end.status)}`, { response: this.#response(end) });
  }

  #response(end: Omit<ResponseEnd, 'output'>) {
    return responseObject(this.#head, { ...end, output: this.#items });
  }

  #add(type: OutputItem['type'], text: string): void {
    let item = this.#items.at(-1);
    if (item?.type !== type || item.isDone) {
      this.#close(false);
      item = this.#open(type);
    }
    this.#items[this.#items.length - 1] = { ...item, text: item.text + text };
    const before = this.#number;
    this.#number += text.length;
    const delta = text.slice(Math.max(0, this.#after - before));
    if (delta === '') return;
    const fields = { ...this.#place(), content_index: 0, delta };
    this.#write(type === 'message' ? 'response.output_text.delta' : 'response.reasoning_text.delta', {
      ...fields,
      ...(type === 'message' && { logprobs: [] }),
    });
  }

  #open(type: OutputItem['type']): OutputItem {
    const prefix = type === 'message' ? 'msg' : 'rs';
    const item: OutputItem = {
      type,
      id: `${prefix}_${this.#head.runId}_${this.#items.length}`,
      text: '',
      isDone: false,
    };
    this.#items.push(item);
    this.#event('response.output_item.added', { output_index: this.#items.length - 1, item: itemView(item) });
    this.#event('response.content_part.added', { ...this.#place(), content_index: 0, part: partView(type, '') });
    return item;
  }

  #close(isCommentary: boolean): void {
    const last = this.#items.at(-1);
    if (last === undefined || last.isDone) return;
    const item = { ...last, isDone: true, isCommentary: isCommentary && last.type === 'message' };
    this.#items[this.#items.length - 1] = item;
    const { type, text } = item;
    const place = { ...this.#place(), content_index: 0 };
    if (type === 'message') this.#event('response.output_text.done', { ...place, text, logprobs: [] });
    else this.#event('response.reasoning_text.done', { ...place, text });
    this.#event('response.content_part.done', { ...place, part: partView(type, text) });
    this.#event('response.output_item.done', { output_index: this.#items.length - 1, item: itemView(item) });
  }

  #place() {
    return { output_index: this.#items.length - 1, item_id: this.#items.at(-1)!.id };
  }

  #event(type: string, fields: Fields): void {
    this.#number += 1;
    if (this.#number > this.#after) this.#write(type, fields);
  }

  #write(type: string, fields: Fields): void {
    const data = JSON.stringify({ type, sequence_number: this.#number, ...fields });
    this.#send(`event: ${type}\ndata: ${data}\n\n`);
  }
}

/** No event of the protocol says that a response was cancelled: its status does. */
const eventOf = (status: ResponseStatus): string => (status === 'cancelled' ? 'failed' : status);
