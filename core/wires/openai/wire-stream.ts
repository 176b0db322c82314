import { EventStream } from '#core/http/event-stream.ts';
import type { Deps } from '#core/ports/deps.ts';

/** Shorter than the idle timeouts of common proxies. */
const HEARTBEAT_MS = 15_000;
/**
 * For so long the first records wait for the text that follows them: after each packet, the next one waits, and the first
 * text of a fast model would.
 */
const FIRST_MS = 30;
/** A comment, which readers of event streams skip. */
const HEARTBEAT = ': heartbeat\n\n';

/**
 * A stream of whole records, of which none is lost: what a slow reader has not taken yet is kept. An agent's answer bounds
 * it.
 */
export class WireStream {
  readonly events = new EventStream();
  readonly #clock: Deps['clock'];
  #held = '';
  #isQuiet = true;
  #cancelTimer: () => void;

  constructor({ clock }: Pick<Deps, 'clock'>) {
    this.#clock = clock;
    this.#cancelTimer = clock.after(HEARTBEAT_MS, this.#beat);
  }

  /** Sends the first records, together with the text that follows if it comes soon. */
  begin(records: string): void {
    this.#held = records;
    this.#clock.after(FIRST_MS, () => this.send(''));
  }

  send(records: string): void {
    const all = this.#held + records;
    if (all === '') return;
    this.#isQuiet = false;
    this.#held = this.events.offerText(all) || this.events.isEnded ? '' : all;
  }

  end(records: string): void {
    this.#cancelTimer();
    this.events.endWithText(this.#held + records);
    this.#held = '';
  }

  readonly #beat = (): void => {
    if (this.events.isEnded) return;
    if (this.#isQuiet) this.events.offerText(HEARTBEAT);
    this.#isQuiet = true;
    this.#cancelTimer = this.#clock.after(HEARTBEAT_MS, this.#beat);
  };
}
