import type { IndexName, Item, Key, Table, TransactOperation } from '#core/ports/table.ts';
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

/** Consumer of units: an item, an index entry, or a whole partition of an index. */
export interface Place {
  readonly table: TableName;
  /** @default - the table itself */
  readonly index?: IndexName;
  readonly pk: string;
  /** Absent for a query, which reads part of a partition. */
  readonly sk?: string;
}

/**
 * Counts capacity units as DynamoDB bills them, on the tables of any host, for one writer at a time:
 *
 * - a write costs a unit per started KB of the larger of the item before and after it, even if its condition fails;
 *   a transaction costs twice as much;
 * - an index costs its own units for each added, removed or changed entry; a changed key removes one and adds one;
 * - a read costs a unit per started 4 KB, or half a unit on an index.
 */
export class UnitCounter {
  readUnits = 0;
  writeUnits = 0;
  /** Write units by item, such as `counters WS#1 / A`, excluding those of indexes. */
  readonly byItem = new Map<string, number>();
  readonly #onUnits: (place: Place, kind: 'read' | 'write', units: number) => void;

  /** Calls `onUnits` for all units with their place. */
  constructor(onUnits: (place: Place, kind: 'read' | 'write', units: number) => void = () => {}) {
    this.#onUnits = onUnits;
  }

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
        this.#onUnits({ table: name, ...key }, 'write', units);
        this.writeUnits += units;
        if (!result.ok) continue;
        for (const { place, units: ofIndex } of indexUnits(name, from, to)) {
          this.#onUnits(place, 'write', ofIndex);
          this.writeUnits += ofIndex;
        }
      }
      return result;
    };
    const take = (place: Omit<Place, 'table'>, units: number): void => {
      this.readUnits += units;
      this.#onUnits({ table: name, ...place }, 'read', units);
    };
    const read = (keys: readonly Key[], items: readonly (Item | undefined)[]): void => {
      for (const [position, { pk, sk }] of keys.entries()) {
        const item = items[position];
        take({ pk, sk }, readUnits(item === undefined ? [] : [item]));
      }
    };
    return {
      get: async (key) => {
        const item = await table.get(key);
        read([key], [item]);
        return item;
      },
      batchGet: async (keys) => {
        const items = await table.batchGet(keys);
        read(keys, items);
        return items;
      },
      put: (item, condition) => write([item], () => table.put(item, condition)),
      update: (key, changes, condition) => write([key], () => table.update(key, changes, condition)),
      delete: (key, condition) => write([key], () => table.delete(key, condition)),
      query: async (query) => {
        const page = await table.query(query);
        const { pk, index } = query;
        if (index === undefined) take({ pk }, readUnits(page.items));
        else if (PROJECTIONS[name] === 'ALL') take({ pk, index }, readUnits(page.items) / 2);
        else {
          take({ pk, index }, readUnits(page.items.map(keysOf)) / 2);
          read(page.items, page.items);
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

function indexUnits(
  name: TableName,
  before: Item | undefined,
  after: Item | undefined,
): { readonly place: Place; readonly units: number }[] {
  return Object.entries(TABLE_SCHEMA.indexes).flatMap(([index, { partitionKey, sortKey }]) => {
    const isIn = (item: Item | undefined) => item?.[partitionKey] !== undefined && item[sortKey] !== undefined;
    const entry = (item: Item | undefined): Item | undefined => {
      if (item === undefined || !isIn(item)) return undefined;
      const { pk, sk } = item;
      return PROJECTIONS[name] === 'ALL'
        ? item
        : { pk, sk, [partitionKey]: item[partitionKey], [sortKey]: item[sortKey] };
    };
    const taken = (item: Item | undefined, units: number) =>
      item === undefined || units === 0
        ? []
        : [{ place: { table: name, index: index as IndexName, pk: item[partitionKey]!, sk: item[sortKey]! }, units }];
    const [from, to] = [entry(before), entry(after)];
    const isSameKey = from?.[partitionKey] === to?.[partitionKey] && from?.[sortKey] === to?.[sortKey];
    if (!isSameKey) return [...taken(from, writeUnits(from)), ...taken(to, writeUnits(to))];
    const isSame = JSON.stringify(from) === JSON.stringify(to);
    return taken(to, isSame ? 0 : Math.max(writeUnits(from), writeUnits(to)));
  });
}

/** Returns the entry of a keys-only index; its other keys are about as long as its own. */
const keysOf = ({ pk, sk, gsi1pk, gsi1sk, gsi2pk, gsi2sk }: Item): Item => ({ pk, sk, gsi1pk, gsi1sk, gsi2pk, gsi2sk });
