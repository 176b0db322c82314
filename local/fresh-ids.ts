import { SystemIds } from '#core/ports/ids.ts';

/** Of each half. Far above the ids that wait for their first row at a time. */
const MAX_FRESH = 500;

/**
 * The machine's own randomness, which knows the ids that it has made and that are in no row yet: a table need not look such a
 * one up. A run of a schedule begins on the condition that there is none with its id, and a look into a large table costs as
 * much as its write.
 */
export class FreshIds extends SystemIds {
  /** Two halves, of which the older one goes as a whole: each request makes an id, and a `Set` gives up its first member slowly. */
  #newer = new Set<string>();
  #older = new Set<string>();

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
