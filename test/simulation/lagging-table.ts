import type { Key, Query, Table } from '#core/ports/table.ts';
import { operationKey, PROJECTIONS, TABLE_SCHEMA } from '#core/ports/table-rules.ts';

interface Lag {
  readonly name: 'main' | 'runs';
  /** Empty table for the visible content of the indexes. */
  readonly copy: Table;
  /** Returns the delay until a write becomes visible. */
  readonly lagMs: () => number;
  /** Returns milliseconds of a monotonic clock. */
  readonly elapsed: () => number;
}

/** Imitates DynamoDB's eventually consistent indexes: each written item becomes visible after its own delay. */
export function laggingTable(table: Table, { name, copy, lagMs, elapsed }: Lag): Table {
  let coming: { readonly at: number; readonly key: Key }[] = [];
  /** Queries of empty partitions are skipped, because they would take most of a simulation's time. */
  const partitions = new Set<string>();
  const wrote = (key: Key): void => void coming.push({ at: elapsed() + lagMs(), key });

  let caughtUp = Promise.resolve();
  /** Concurrent queries see the same writes. */
  const catchUp = (): Promise<void> => {
    caughtUp = caughtUp.then(showDue);
    return caughtUp;
  };

  async function showDue(): Promise<void> {
    const due = coming.filter(({ at }) => at <= elapsed());
    if (due.length === 0) return;
    coming = coming.filter(({ at }) => at > elapsed());
    for (const { key } of due) {
      const item = await table.get(key);
      const shown = [item?.gsi1pk, item?.gsi2pk].filter((pk) => pk !== undefined);
      for (const pk of shown) partitions.add(pk);
      // The write takes effect at once, so it is not awaited and no time passes.
      void (item && shown.length > 0 ? copy.put(item) : copy.delete(key));
    }
  }

  async function queryIndex(query: Query & { readonly index: 'gsi1' | 'gsi2' }) {
    await catchUp();
    if (!partitions.has(query.pk)) return { items: [] };
    const page = await copy.query(query);
    if (PROJECTIONS[name] === 'ALL') return page;
    // The index has keys only, so the items are current even if their positions lag.
    const items = await Promise.all(page.items.map((shown) => table.get(shown)));
    const { partitionKey, sortKey } = TABLE_SCHEMA.indexes[query.index];
    const placed = items.flatMap((item, i) =>
      item?.[partitionKey] === query.pk ? [{ ...item, [sortKey]: page.items[i]![sortKey] }] : [],
    );
    return { ...page, items: placed };
  }

  return {
    ...table,
    query: ({ index, ...query }) => (index ? queryIndex({ index, ...query }) : table.query(query)),
    async put(item, condition) {
      const result = await table.put(item, condition);
      if (result.ok) wrote(item);
      return result;
    },
    async update(key, changes, condition) {
      const result = await table.update(key, changes, condition);
      if (result.ok) wrote(key);
      return result;
    },
    async delete(key, condition) {
      const result = await table.delete(key, condition);
      if (result.ok) wrote(key);
      return result;
    },
    async transact(operations) {
      const result = await table.transact(operations);
      if (result.ok) for (const operation of operations) wrote(operationKey(operation));
      return result;
    },
  };
}
