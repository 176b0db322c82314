import type { ScriptedTurn } from './turns.ts';

/** Replaces the share `rate` (0 to 1) of all model requests with `turns`, one after the other. */
export interface Faults {
  readonly rate: number;
  readonly turns: readonly ScriptedTurn[];
  /** @default 1 */
  readonly seed?: number;
}

/** Chooses the requests that fail: the same ones for the same seed. */
export class ScriptedFaults {
  readonly #given: Faults;
  #state: number;
  #count = 0;

  constructor(given: Faults) {
    this.#given = given;
    this.#state = given.seed ?? 1;
  }

  next(): ScriptedTurn | undefined {
    // This is Park and Miller's generator.
    this.#state = (this.#state * 48_271) % 2_147_483_647;
    const { rate, turns } = this.#given;
    return this.#state / 2_147_483_647 < rate ? turns[this.#count++ % turns.length] : undefined;
  }
}
