import { SystemIds } from '#core/ports/ids.ts';

/** Of each half. Far above the ids that wait for their first row at a time. */
const MAX_FRESH = 500;
const RANDOM_BYTES = 4096;

/**
 * The machine's own randomness, which knows the ids that it has made and that are in no row yet: a table need not look such a
 * one up. A run of a schedule begins on the condition that there is none with its id, and a look into a large table costs as
 * much as its write.
 */
export class FreshIds extends SystemIds {
  /** Two halves, of which the older one goes as a whole: each request makes an id, and a `Set` gives up its first member slowly. */
  #newer = new Set<string>();
  #older = new Set<string>();
  /** Random bytes that were not given out yet. */
  #random: Uint8Array = new Uint8Array();

  /** Asks the machine for some of them ahead: each time costs as much as a thousand bytes. */
  override randomBytes(length: number): Uint8Array {
    if (length > this.#random.length) {
      if (length > RANDOM_BYTES) return super.randomBytes(length);
      this.#random = super.randomBytes(RANDOM_BYTES);
    }
    const bytes = Uint8Array.from(this.#random.subarray(0, length));
    this.#random.fill(0, 0, length);
    this.#random = this.#random.subarray(length);
    return bytes;
  }

  override uuid(): string {
    const id = super.uuid();
    if (this.#newer.size >= MAX_FRESH) {
      this.#older = this.#newer;
      this.#newer = new Set();
    }
    this.#newer.add(id);
    return id;
  }

  /** @param digits an id without its dashes */
  isFresh(digits: string): boolean {
    if (digits.length !== DIGITS) return false;
    const id = dashed(digits);
    return this.#newer.has(id) || this.#older.has(id);
  }

  /** A row has it from now on. */
  taken(digits: string): void {
    if (digits.length !== DIGITS) return;
    const id = dashed(digits);
    this.#newer.delete(id);
    this.#older.delete(id);
  }
}

const DIGITS = 32;

const dashed = (digits: string): string =>
  `${digits.slice(0, 8)}-${digits.slice(8, 12)}-${digits.slice(12, 16)}-${digits.slice(16, 20)}-${digits.slice(20)}`;
