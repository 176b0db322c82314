import { SystemIds } from '#core/ports/ids.ts';

/** Far above the ids that wait for their first row at a time. */
const MAX_FRESH = 10_000;

/**
 * The machine's own randomness, which knows the ids that it has made and that are in no row yet: a table need not look such a
 * one up. A run of a schedule begins on the condition that there is none with its id, and a look into a large table costs as
 * much as its write.
 */
export class FreshIds extends SystemIds {
  /** Without dashes. The oldest is the first. */
  readonly #fresh = new Set<string>();

  override uuid(): string {
    const id = super.uuid();
    if (this.#fresh.size >= MAX_FRESH) this.#fresh.delete(this.#fresh.keys().next().value!);
    this.#fresh.add(id.replaceAll('-', ''));
    return id;
  }

  /** @param digits an id without its dashes */
  isFresh(digits: string): boolean {
    return this.#fresh.has(digits);
  }

  /** A row has it from now on. */
  taken(digits: string): void {
    this.#fresh.delete(digits);
  }
}
