import { batchesOf } from '#core/base/batches.ts';
import type { Json } from '#core/base/json.ts';

/**
 * The subset of DynamoDB that both hosts implement (`docs/architecture.md#data`).
 *
 * An adapter only stores items: keys, meaning and tenancy are in the `store.ts` files, which are written once on top of
 * this port. `test/conformance/table.ts` and its property test define what every adapter must do.
 */

// A type alias, because an interface is not assignable to Item.
export type Key = {
  /** Partition key, 1 to 2,048 bytes of UTF-8. */
  readonly pk: string;
  /** Sort key, 1 to 1,024 bytes of UTF-8; ordered by bytes. */
  readonly sk: string;
};

/**
 * An item: its key, an optional `ttl` and JSON attributes with names of 1 to 255 characters. At most 400 KB, counted as
 * DynamoDB counts it. An item is in index `gsiN` if it has both `gsiNpk` and `gsiNsk`, which have the limits of
 * `pk` and `sk`.
 */
export type Item = Key & {
  /** Expiry in whole epoch seconds. Reads hide the item from then on; it is deleted some time later. */
  ttl?: number;
  gsi1pk?: string;
  gsi1sk?: string;
  gsi2pk?: string;
  gsi2sk?: string;
  [attribute: string]: Json | undefined;
};

export type IndexName = 'gsi1' | 'gsi2';

/**
 * A condition on the stored item: the write happens only if it is true. Conditions also see items that have expired but
 * are not deleted yet: a lease uses `anyOf(absent(), lessThan('ttl', now))`.
 *
 * `absent(name)` and `exists(name)` test a top-level attribute; without a name they test the whole item.
 * `equals` and `lessThan` compare scalars of the same type; a missing attribute or one of another type never matches.
 * Text is ordered by its UTF-8 bytes. `and` and `or` without operands are refused.
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
 * Changes of top-level attributes, applied atomically. An attribute may be in only one of the three; never `pk` or
 * `sk`. An update without changes still creates the item.
 */
export interface Changes {
  readonly set?: { readonly [attribute: string]: Json | undefined };
  /**
   * Adds to a number, in decimals (0.1 + 0.2 is 0.3); a missing attribute counts as 0. A non-number throws
   * {@link TableUsageError}. Keep sums to 15 digits or safe integers: beyond that the hosts round differently.
   * Never for `ttl` or a key of an index.
   */
  readonly add?: { readonly [attribute: string]: number };
  readonly remove?: readonly string[];
}

/** An unmet condition is a result, not an exception. */
export type WriteResult = { readonly ok: true } | { readonly ok: false };
/** `item`: the whole item after the update, even if it has expired. */
export type UpdateResult = { readonly ok: true; readonly item: Item } | { readonly ok: false };
/** `failed`: positions of the operations whose condition was not met; empty if another writer was faster. */
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
  /** Partition key in the table or in `index`. */
  readonly pk: string;
  readonly sk?: SortKeyRange;
  /** Index reads may lag briefly behind writes on AWS; reads of the table never do. */
  readonly index?: IndexName;
  /** 1 to 1,000 items, default 100. */
  readonly limit?: number;
  /** Opaque, from an earlier page of the same query (only `limit` may differ). It contains the key of an item. */
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
 * Reads never show expired items. Every method is linearizable for one item, except reads of an index. Items with the
 * same sort key in an index come in no particular order, but each once.
 *
 * Misuse (a bad key, a non-finite number, an item over 400 KB, 101 operations in a transaction, two operations on one
 * item, a foreign cursor) throws {@link TableUsageError}; it is always a bug of the caller.
 *
 * On AWS a request whose answer is lost is sent again: an `add` may then count twice, and a conditional `update` or
 * `delete` may return `{ ok: false }` after its own success (a conditional `put` recognizes its item). Only `transact`
 * is exactly once, so money uses it.
 */
export interface Table {
  /**
   * Set if all writers of the table are in this process, so that cached items stay valid until the process changes
   * them.
   */
  readonly isOfOneProcess?: true;
  get(key: Key): Promise<Item | undefined>;
  /**
   * Reads at most 100 keys; results are in the order of the keys, with `undefined` for missing items. Duplicate keys
   * are allowed.
   */
  batchGet(keys: readonly Key[]): Promise<(Item | undefined)[]>;
  /** Writes the item, replacing an existing one. */
  put(item: Item, condition?: Condition): Promise<WriteResult>;
  /** Updates the item; creates a missing item unless the condition forbids it. */
  update(key: Key, changes: Changes, condition?: Condition): Promise<UpdateResult>;
  /** Deleting a missing item succeeds, unless the condition forbids it. */
  delete(key: Key, condition?: Condition): Promise<WriteResult>;
  query(query: Query): Promise<Page>;
  /**
   * Returns the number of all items of each query, which may include expired items that are not deleted yet. Absent where
   * counting costs as much as reading, as on AWS.
   */
  count?(queries: readonly Query[]): Promise<number[]>;
  /** 1 to 100 operations on different items, all or none. */
  transact(operations: readonly TransactOperation[]): Promise<TransactResult>;
}

/** Yields the items of all pages of a query. */
export async function* queryAll(table: Table, query: Query): AsyncGenerator<Item> {
  let cursor = query.cursor;
  do {
    const page = await table.query({ ...query, cursor });
    yield* page.items;
    cursor = page.cursor;
  } while (cursor !== undefined);
}

/** Reads any number of keys with {@link Table.batchGet}. */
export async function getAll(table: Table, keys: readonly Key[]): Promise<(Item | undefined)[]> {
  return (await Promise.all(batchesOf(keys, MAX_BATCH_KEYS).map((batch) => table.batchGet(batch)))).flat();
}

export const MAX_BATCH_KEYS = 100;
export const MAX_ITEM_BYTES = 400 * 1024;
export const MAX_TRANSACTION_OPERATIONS = 100;

export class TableUsageError extends Error {
  readonly code = 'TABLE_USAGE';
  constructor(message: string) {
    super(message);
    this.name = 'TableUsageError';
  }
}
