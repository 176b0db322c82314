import { EventStream } from '#core/http/event-stream.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { ProgressEvent } from '../engines/progress.ts';

/** Shorter than the idle timeouts of common proxies. */
const HEARTBEAT_MS = 15_000;

/**
 * Shows a visitor the text of an answer and whether the run is working, and nothing else of the run: no steps, tools, arguments or
 * costs. `started` names the message, `text` adds to the answer, `reset` voids it, `status` says `working` or `waiting`.
 */
export class AnswerStream {
  readonly events = new EventStream();
  readonly #clock: Deps['clock'];
  readonly #showsText: boolean;
  #cancelTimer: () => void;
  #hasText = false;
  #isStopped = false;

  constructor({ clock }: Pick<Deps, 'clock'>, { showsText }: { readonly showsText: boolean }) {
    this.#clock = clock;
    this.#showsText = showsText;
    this.#cancelTimer = clock.after(HEARTBEAT_MS, this.#beat);
  }

  /** Says which message of its session it is. */
  begin(number: number): void {
    this.events.offer('started', { number });
  }

  readonly emit = (event: ProgressEvent): void => {
    if (this.#isStopped) return;
    const change = changeOf(event);
    if (change === undefined) return;
    if ('text' in change) {
      if (!this.#showsText) return;
      this.#hasText = true;
      this.events.offer('text', change);
    } else if ('status' in change) this.events.offer('status', change);
    else if (this.#hasText) {
      this.#hasText = false;
      this.events.offer('reset', {});
    }
  };

  /** Ends the stream with an event. */
  end(event: 'result' | 'error' | 'continues', data: object): void {
    this.stop();
    this.events.end(event, JSON.stringify(data));
  }

  /** Drops further events, and ends the heartbeats. */
  stop(): void {
    this.#isStopped = true;
    this.#cancelTimer();
  }

  readonly #beat = (): void => {
    this.#cancelTimer = this.#clock.after(HEARTBEAT_MS, this.#beat);
  };
}

type Change = { readonly text: string } | { readonly status: 'working' | 'waiting' } | { readonly isVoid: true };

/** Returns what an event of a run changes for a visitor. A loop's text before a tool call is no answer. */
export function changeOf(event: ProgressEvent): Change | undefined {
  switch (event.type) {
    case 'text_delta':
      return { text: event.text };
    case 'retry':
    case 'interrupted':
    case 'resumed':
    case 'turn_start':
      return { isVoid: true };
    case 'tool_call':
      return { status: 'working' };
    case 'waiting':
      return { status: 'waiting' };
    default:
      return undefined;
  }
}
