import { SystemIds } from '#core/ports/ids.ts';

/** Maximum size of each generation, far above the number of ids that wait for their first row at a time. */
const MAX_FRESH = 500;
const RANDOM_BYTES = 4096;

/**
 * The machine's random generator. It remembers the ids that it made and that are in no row yet, so that a table need
 * not look them up. A scheduled run starts on the condition that its id is unused, and a look-up in a large table costs
 * as much as the write.
 */
export class FreshIds extends SystemIds {
  /**
   * Two generations, of which the older is dropped at once: each request makes an id, and deleting the first member of
   * a `Set` is slow.
   */
  #newer = new Set<string>();
  #older = new Set<string>();
  /** Random bytes that are not used yet. */
  #random: Uint8Array = new Uint8Array();

  /** Reads random bytes in advance: each system call costs as much as a thousand bytes. */
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

  /** @param digits The id without its dashes. */
  isFresh(digits: string): boolean {
    if (digits.length !== DIGITS) return false;
    const id = dashed(digits);
    return this.#newer.has(id) || this.#older.has(id);
  }

  /** Records that a row now has this id. */
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
