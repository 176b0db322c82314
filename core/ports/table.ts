import { batchesOf } from '#core/base/batches.ts';
import type { Json } from '#core/base/json.ts';

/**
 * The part of DynamoDB that both hosts honour (`docs/architecture.md#data`).
 *
 * An adapter is a dumb store: keys, meaning and tenancy live in the `store.ts` files, which are written once over this
 * port. `test/conformance/table.ts` and its property test say what every adapter must do.
 */

// No interface, for those do not pass as an Item.
export type Key = {
  /** Partition key, 1 to 2,048 bytes of UTF-8. */
  readonly pk: string;
  /** Sort key, 1 to 1,024 bytes of UTF-8; ordered by bytes. */
  readonly sk: string;
};

/**
 * An item: its key, an optional `ttl` and JSON attributes with names of 1 to 255 characters. At most 400 KB, counted as
 * DynamoDB counts it. An item stands in index `gsiN` when it has both `gsiNpk` and `gsiNsk`, which have the limits of
 * `pk` and `sk`.
 */
export type Item = Key & {
  /** Whole epoch seconds. From then on reads no longer show the item; it is removed some time later. */
  ttl?: number;
  gsi1pk?: string;
  gsi1sk?: string;
  gsi2pk?: string;
  gsi2sk?: string;
  [attribute: string]: Json | undefined;
};

export type IndexName = 'gsi1' | 'gsi2';

/**
 * A condition on the stored item: the write happens only if it holds. Conditions also see items that have expired but are
 * not yet removed: a lease uses `anyOf(absent(), lessThan('ttl', now))`.
 *
 * `absent(name)` and `exists(name)` test a top-level attribute; without a name they test the whole item.
 * `equals` and `lessThan` compare scalars of the same type; a missing attribute or one of another type never matches.
 * Text is ordered by its UTF-8 bytes. `and` and `or` of nothing are refused.
 */
export type Condition =
  | { readonly op: 'absent'; readonly attribute?: string }
  | { readonly op: 'exists'; readonly attribute?: string }
  | { readonly op: 'equals'; readonly attribute: string; readonly value: string | number | boolean | null }
  | { readonly op: 'lessThan'; readonly attribute: string; readonly value: string | number }
  | { readonly op: 'and'; readonly conditions: readonly Condition[] }
  | { readonly op: 'or'; readonly conditions: readonly Condition[] };

export const absent = (attribute?: string): Condition => ({ op: 'absent', attribute });
export const exists = (attribute?: string): Condition => ({ op: 'exists', attribute });
export const equals = (attribute: string, value: string | number | boolean | null): Condition => ({
  op: 'equals',
  attribute,
  value,
});
export const lessThan = (attribute: string, value: string | number): Condition => ({
  op: 'lessThan',
  attribute,
  value,
});
export const allOf = (...conditions: Condition[]): Condition => ({ op: 'and', conditions });
export const anyOf = (...conditions: Condition[]): Condition => ({ op: 'or', conditions });

/**
 * Changes to top-level attributes, all or none. One attribute may stand in one of the three only; never `pk` or `sk`.
 * Without any change an update still creates the item.
 */
export interface Changes {
  readonly set?: { readonly [attribute: string]: Json | undefined };
  /**
   * Adds to a number, in decimals (0.1 + 0.2 is 0.3); a missing attribute counts as 0. A non-number there throws
   * {@link TableUsageError}. Keep sums to 15 digits or safe integers: past that the hosts round at different moments.
   * Never `ttl` or a key of an index.
   */
  readonly add?: { readonly [attribute: string]: number };
  readonly remove?: readonly string[];
}

/** A condition that does not hold is a result, not an exception. */
export type WriteResult = { readonly ok: true } | { readonly ok: false };
/** `item`: the whole item after the update, even if it has expired. */
export type UpdateResult = { readonly ok: true; readonly item: Item } | { readonly ok: false };
/** `failed`: positions of the operations whose condition did not hold; empty if another writer was faster. */
export type TransactResult = { readonly ok: true } | { readonly ok: false; readonly failed: readonly number[] };

export type TransactOperation =
  | { readonly op: 'put'; readonly item: Item; readonly condition?: Condition }
  | { readonly op: 'update'; readonly key: Key; readonly changes: Changes; readonly condition?: Condition }
  | { readonly op: 'delete'; readonly key: Key; readonly condition?: Condition }
  | { readonly op: 'check'; readonly key: Key; readonly condition: Condition };

/** A key condition on the sort key; `between` includes both ends. */
export type SortKeyRange =
  | { readonly beginsWith: string }
  | { readonly between: readonly [string, string] }
  | { readonly lessThan: string }
  | { readonly greaterThan: string };

export interface Query {
  /** The partition: of the table, or of `index`. */
  readonly pk: string;
  readonly sk?: SortKeyRange;
  /** Index reads may lag behind writes by a moment on AWS; reads without it never do. */
  readonly index?: IndexName;
  /** 1 to 1,000 items, default 100. */
  readonly limit?: number;
  /** Opaque; from an earlier page of the same query, of which only `limit` may differ. It contains the key of an item. */
  readonly cursor?: string;
  /** Newest (greatest sort key) first. */
  readonly reverse?: boolean;
}

export interface Page {
  readonly items: Item[];
  /** Present exactly when at least one more item follows. */
  readonly cursor?: string;
}

/**
 * Reads never show expired items. Every method is linearizable for one item except reads of an index. Items with the same
 * sort key in an index come in no particular order, but each once.
 *
 * Misuse (a bad key, a non-finite number, an item over 400 KB, 11 operations in a transaction, two operations on one
 * item, a foreign cursor) throws {@link TableUsageError}; it is always a fault of the caller.
 *
 * On AWS a request whose answer is lost is sent again: an `add` may then count twice, and a conditional `update` or
 * `delete` answer `{ ok: false }` to its own success (a conditional `put` recognises its item). Only `transact` is exactly
 * once: money moves there.
 */
export interface Table {
  /** All writers of the table are in this process, so what it has seen of an item stays true until it changes it. */
  readonly isOfOneProcess?: true;
  get(key: Key): Promise<Item | undefined>;
  /** At most 100 keys; answers in the order of the keys, `undefined` where there is no item. Doubled keys are allowed. */
  batchGet(keys: readonly Key[]): Promise<(Item | undefined)[]>;
  /** Replaces the whole item. */
  put(item: Item, condition?: Condition): Promise<WriteResult>;
  /** Creates a missing item, unless the condition forbids it. */
  update(key: Key, changes: Changes, condition?: Condition): Promise<UpdateResult>;
  /** Deleting a missing item succeeds, unless the condition forbids it. */
  delete(key: Key, condition?: Condition): Promise<WriteResult>;
  query(query: Query): Promise<Page>;
  /** 1 to 10 operations on different items, all or none. */
  transact(operations: readonly TransactOperation[]): Promise<TransactResult>;
}

/** All pages of a query, item by item. */
export async function* queryAll(table: Table, query: Query): AsyncGenerator<Item> {
  let cursor = query.cursor;
  do {
    const page = await table.query({ ...query, cursor });
    yield* page.items;
    cursor = page.cursor;
  } while (cursor !== undefined);
}

/** {@link Table.batchGet} for any number of keys. */
export async function getAll(table: Table, keys: readonly Key[]): Promise<(Item | undefined)[]> {
  return (await Promise.all(batchesOf(keys, MAX_BATCH_KEYS).map((batch) => table.batchGet(batch)))).flat();
}

export const MAX_BATCH_KEYS = 100;
export const MAX_ITEM_BYTES = 400 * 1024;
export const MAX_TRANSACTION_OPERATIONS = 10;

export class TableUsageError extends Error {
  readonly code = 'TABLE_USAGE';
  constructor(message: string) {
    super(message);
    this.name = 'TableUsageError';
  }
}
