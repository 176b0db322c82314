import type { Item, Key, Table, TransactOperation } from '#core/ports/table.ts';
import {
  encodeItem,
  itemBytes,
  operationKey,
  PROJECTIONS,
  TABLE_SCHEMA,
  type TableName,
} from '#core/ports/table-rules.ts';

const WRITE_BYTES = 1024;
const READ_BYTES = 4096;

/**
 * Counts capacity units as DynamoDB bills them, on the tables of any host, for one writer at a time:
 *
 * - a write takes a unit for each started KB of the larger of the item before and after it, also if its condition fails;
 *   in a transaction twice as many;
 * - an index takes units of its own for each entry that is added, removed or changed; a changed key removes and adds one;
 * - a read takes a unit for each started 4 KB, of an index half of one.
 */
export class UnitCounter {
  readUnits = 0;
  writeUnits = 0;
  /** Write units by item, such as `counters WS#1 / A`; those of indexes are not in them. */
  readonly byItem = new Map<string, number>();

  count(table: Table, name: TableName): Table {
    const write = async <Result extends { readonly ok: boolean }>(
      keys: readonly Key[],
      act: () => Promise<Result>,
      times = 1,
    ): Promise<Result> => {
      const before = await Promise.all(keys.map((key) => table.get(key)));
      const result = await act();
      const after = result.ok ? await Promise.all(keys.map((key) => table.get(key))) : before;
      for (const [position, key] of keys.entries()) {
        const [from, to] = [before[position], after[position]];
        const units = times * Math.max(1, writeUnits(from), writeUnits(to));
        const item = `${name} ${key.pk} / ${key.sk}`;
        this.byItem.set(item, (this.byItem.get(item) ?? 0) + units);
        this.writeUnits += units + (result.ok ? indexUnits(name, from, to) : 0);
      }
      return result;
    };
    const read = (items: readonly (Item | undefined)[]): void => {
      for (const item of items) this.readUnits += readUnits(item === undefined ? [] : [item]);
    };
    return {
      get: async (key) => {
        const item = await table.get(key);
        read([item]);
        return item;
      },
      batchGet: async (keys) => {
        const items = await table.batchGet(keys);
        read(items);
        return items;
      },
      put: (item, condition) => write([item], () => table.put(item, condition)),
      update: (key, changes, condition) => write([key], () => table.update(key, changes, condition)),
      delete: (key, condition) => write([key], () => table.delete(key, condition)),
      query: async (query) => {
        const page = await table.query(query);
        if (query.index === undefined) this.readUnits += readUnits(page.items);
        else if (PROJECTIONS[name] === 'ALL') this.readUnits += readUnits(page.items) / 2;
        else {
          this.readUnits += readUnits(page.items.map(keysOf)) / 2;
          read(page.items);
        }
        return page;
      },
      transact: (operations) => write(operations.map(keyOf), () => table.transact(operations), 2),
    };
  }
}

const keyOf = (operation: TransactOperation): Key => operationKey(operation);

const sizeOf = (item: Item | undefined): number => (item === undefined ? 0 : itemBytes(encodeItem(item)));
const writeUnits = (item: Item | undefined): number => Math.ceil(sizeOf(item) / WRITE_BYTES);
const readUnits = (items: readonly Item[]): number =>
  Math.max(1, Math.ceil(items.reduce((sum, item) => sum + sizeOf(item), 0) / READ_BYTES));

function indexUnits(name: TableName, before: Item | undefined, after: Item | undefined): number {
  const units = Object.values(TABLE_SCHEMA.indexes).map(({ partitionKey, sortKey }) => {
    const isIn = (item: Item | undefined) => item?.[partitionKey] !== undefined && item[sortKey] !== undefined;
    const entry = (item: Item | undefined): Item | undefined => {
      if (item === undefined || !isIn(item)) return undefined;
      const { pk, sk } = item;
      return PROJECTIONS[name] === 'ALL'
        ? item
        : { pk, sk, [partitionKey]: item[partitionKey], [sortKey]: item[sortKey] };
    };
    const [from, to] = [entry(before), entry(after)];
    const isSameKey = from?.[partitionKey] === to?.[partitionKey] && from?.[sortKey] === to?.[sortKey];
    if (!isSameKey) return writeUnits(from) + writeUnits(to);
    return JSON.stringify(from) === JSON.stringify(to) ? 0 : Math.max(writeUnits(from), writeUnits(to));
  });
  return units.reduce((sum, each) => sum + each, 0);
}

/** An entry of an index that copies keys only; its other keys are about as long as its own. */
const keysOf = ({ pk, sk, gsi1pk, gsi1sk, gsi2pk, gsi2sk }: Item): Item => ({ pk, sk, gsi1pk, gsi1sk, gsi2pk, gsi2sk });
