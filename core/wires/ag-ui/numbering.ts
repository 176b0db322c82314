import type { AgUiEvent } from './events.ts';

/**
 * A place in a stream: the number of its events without those that only add text, and the characters that these added. Text
 * comes in other pieces when a stream is read again, so its pieces are not counted.
 */
export interface Place {
  readonly events: number;
  readonly characters: number;
}

export const START: Place = { events: 0, characters: 0 };

const WRITTEN = /^(\d{1,9})\.(\d{1,9})$/;

/** Returns the place that an id of an event names; `undefined` if it is none. */
export function placeOf(id: string): Place | undefined {
  const [, events, characters] = WRITTEN.exec(id) ?? [];
  return events === undefined ? undefined : { events: Number(events), characters: Number(characters) };
}

export interface IdentifiedEvent {
  readonly id: string;
  readonly event: AgUiEvent;
}

/** Gives ids to the events of a stream that is read from its beginning, and leaves out what its client has. */
export class Numbering {
  readonly #after: Place;
  #events = 0;
  #characters = 0;

  constructor(after: Place) {
    this.#after = after;
  }

  /** The place after the last event, or after what the client has, if that is further. */
  get place(): Place {
    const isBehind =
      this.#events < this.#after.events ||
      (this.#events === this.#after.events && this.#characters < this.#after.characters);
    return isBehind ? this.#after : { events: this.#events, characters: this.#characters };
  }

  add(events: readonly AgUiEvent[]): IdentifiedEvent[] {
    return events.flatMap((event) => {
      const left = this.#count(event);
      return left === undefined ? [] : [{ id: `${this.#events}.${this.#characters}`, event: left }];
    });
  }

  #count(event: AgUiEvent): AgUiEvent | undefined {
    if (!('delta' in event) || event.type === 'TOOL_CALL_ARGS') {
      this.#events += 1;
      return this.#events > this.#after.events ? event : undefined;
    }
    this.#characters += event.delta.length;
    const unseen = this.#characters - this.#after.characters;
    if (unseen <= 0 || event.delta === '') return undefined;
    return unseen >= event.delta.length ? event : { ...event, delta: event.delta.slice(-unseen) };
  }
}
