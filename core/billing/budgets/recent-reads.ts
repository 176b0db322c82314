import type { Clock } from '#core/ports/clock.ts';
import type { Table } from '#core/ports/table.ts';

const MAX_KEPT = 10_000;

/** In-process cache of recent reads from a table, by key. Concurrent readers share one read. */
export class RecentReads<T> {
  readonly #byTable = new WeakMap<Table, Map<string, { readonly at: number; readonly value: Promise<T> }>>();

  /** Returns the value of a read that began less than `maxAgeMs` ago, or of a new one. */
  get(
    { table, clock }: { readonly table: Table; readonly clock: Clock },
    key: string,
    maxAgeMs: number,
    read: () => Promise<T>,
  ): Promise<T> {
    const kept = this.#keptOf(table);
    const now = clock.now();
    const found = kept.get(key);
    if (found !== undefined && found.at <= now && now - found.at < maxAgeMs) return found.value;
    if (kept.size >= MAX_KEPT) kept.clear();
    const entry = { at: now, value: read() };
    kept.set(key, entry);
    entry.value.catch(() => {
      if (kept.get(key) === entry) kept.delete(key);
    });
    return entry.value;
  }

  forget(table: Table, key: string): void {
    this.#byTable.get(table)?.delete(key);
  }

  #keptOf(table: Table) {
    const kept = this.#byTable.get(table) ?? new Map();
    this.#byTable.set(table, kept);
    return kept;
  }
}
