import type { SQLInputValue, StatementSync } from 'node:sqlite';
import type { Clock } from '#core/ports/clock.ts';
import { epochSeconds } from '#core/ports/clock.ts';
import type {
  Changes,
  Condition,
  Item,
  Key,
  Page,
  Query,
  SortKeyRange,
  Table,
  TransactOperation,
  TransactResult,
  UpdateResult,
  WriteResult,
} from '#core/ports/table.ts';
import {
  applyChanges,
  type CheckedChanges,
  checkBatch,
  checkChanges,
  checkCondition,
  checkKey,
  checkTransaction,
  compareUtf8,
  holds,
  isExpired,
  operationKey,
  type Position,
  planQuery,
  type QueryPlan,
  TABLE_SCHEMA,
  type TableName,
  textOfItem,
} from '#core/ports/table-rules.ts';
import type { FreshIds } from '../fresh-ids.ts';
import type { Database } from './database.ts';
import type { FeedRow, LocalFeed } from './local-feed.ts';
import { nameOf, Row } from './rows.ts';

/**
 * {@link Table} in a SQLite database whose latest rows may still be in memory.
 *
 * Methods work synchronously before they return the promise, and `openDatabase` allows only one process, so a read and
 * its following write are atomic. Create one object per table and database, because it caches items.
 */
export class SqliteTable implements Table {
  readonly isOfOneProcess = true;
  readonly #database: Database;
  readonly #clock: Clock;
  readonly #name: TableName;
  readonly #get: StatementSync;
  /** SQL text -> statement. */
  readonly #prepared = new Map<string, StatementSync>();
  readonly #remembered = new ItemCache();
  readonly #ids: Pick<FreshIds, 'isFresh' | 'taken'> | undefined;

  readonly #feed: LocalFeed | undefined;

  /**
   * @param ids Generator of the sort keys of new rows, without dashes.
   * @param feed Takes the updates of this table that its rule selects.
   */
  constructor(
    database: Database,
    name: TableName,
    clock: Clock,
    { ids, feed }: { readonly ids?: Pick<FreshIds, 'isFresh' | 'taken'> | undefined; readonly feed?: LocalFeed } = {},
  ) {
    this.#ids = ids;
    this.#feed = feed;
    this.#database = database;
    this.#clock = clock;
    this.#name = name;
    this.#get = database.db.prepare(`SELECT item FROM ${name} WHERE pk = ? AND sk = ?`);
  }

  async get(key: Key): Promise<Item | undefined> {
    checkKey(key);
    return this.#visible(key);
  }

  async batchGet(keys: readonly Key[]): Promise<(Item | undefined)[]> {
    checkBatch(keys);
    return keys.map((key) => this.#visible(key));
  }

  async put(item: Item, condition?: Condition): Promise<WriteResult> {
    const text = textOfItem(item);
    checkCondition(condition);
    const name = nameOf(item);
    if (!this.#holds(condition, item, name)) return { ok: false };
    await this.#write([{ row: new Row(this.#name, name, text, item) }]);
    return { ok: true };
  }

  async update(key: Key, changes: Changes, condition?: Condition): Promise<UpdateResult> {
    const checked = checkChanges(key, changes);
    checkCondition(condition);
    const name = nameOf(key);
    const current = this.#read(key, name);
    if (!holds(condition, current)) return { ok: false };
    const { item: changed, text } = applyChanges(key, current, checked);
    const item = checked.isFlat ? changed : (JSON.parse(text) as Item);
    await this.#write([{ row: new Row(this.#name, name, text, item), item, fed: this.#fedBy(current, item) }]);
    // Computed lazily: most callers do not use it.
    return {
      ok: true,
      get item() {
        return frozen(item);
      },
    };
  }

  async delete(key: Key, condition?: Condition): Promise<WriteResult> {
    checkKey(key);
    checkCondition(condition);
    const name = nameOf(key);
    if (!this.#holds(condition, key, name)) return { ok: false };
    await this.#write([{ row: new Row(this.#name, name, undefined, key) }]);
    return { ok: true };
  }

  async query(query: Query): Promise<Page> {
    const plan = planQuery(query);
    const texts = this.#database.hasWaiting(this.#name) ? this.#merged(plan) : this.#stored(plan);
    const items = texts.map((text) => JSON.parse(text) as Item);
    // Items found through an index are often read or updated next.
    if (plan.index)
      for (const [n, item] of items.entries()) this.#remembered.add(nameOf(item), texts[n]!, frozen(item));
    if (items.length <= plan.limit) return { items };
    items.pop();
    return { items, cursor: plan.cursorAfter(items.at(-1)!) };
  }

  async count(queries: readonly Query[]): Promise<number[]> {
    const plans = queries.map(planQuery);
    const counts = plans.map((plan) => {
      const { where, values } = this.#within(plan);
      const sql = `SELECT count(*) AS count FROM ${this.#name} WHERE ${where.join(' AND ')}`;
      return this.#prepare(sql).get(...values)!.count as number;
    });
    if (!this.#database.hasWaiting(this.#name)) return counts;
    const ofPartition = Map.groupBy(plans.keys(), (n) => partitionOf(plans[n]!));
    const areIn = plans.map(isPlacedIn);
    const add = (row: Placed | undefined, change: 1 | -1): void => {
      for (const partition of row ? partitionsOf(row) : []) {
        for (const n of ofPartition.get(partition) ?? []) if (areIn[n]!(row!)) counts[n]! += change;
      }
    };
    const stored = this.#prepare(
      `SELECT pk, sk, gsi1pk, gsi1sk, gsi2pk, gsi2sk FROM ${this.#name} WHERE pk = ? AND sk = ?`,
    );
    for (const row of this.#database.allWaiting(this.#name, () => true)) {
      add(stored.get(row.pk, row.sk) as unknown as Placed | undefined, -1);
      if (row.text !== undefined) add(row, 1);
    }
    return counts;
  }

  async transact(operations: readonly TransactOperation[]): Promise<TransactResult> {
    checkTransaction(operations);
    // Validate all operations before any condition is checked.
    const checked = operations.map((operation) => {
      if (operation.op === 'put') return textOfItem(operation.item);
      return operation.op === 'update' ? checkChanges(operation.key, operation.changes) : undefined;
    });
    const failed: number[] = [];
    const writes: Write[] = [];
    for (const [position, operation] of operations.entries()) {
      const key = operationKey(operation);
      const name = nameOf(key);
      const valid = checked[position];
      if (!this.#holds(operation.condition, key, name)) failed.push(position);
      else if (operation.op === 'put') {
        writes.push({ row: new Row(this.#name, name, valid as string, operation.item) });
      } else if (operation.op === 'delete') writes.push({ row: new Row(this.#name, name, undefined, key) });
      else if (operation.op === 'update') {
        const changes = valid as CheckedChanges;
        const current = this.#read(key, name);
        const { item, text } = applyChanges(key, current, changes);
        const row = new Row(this.#name, name, text, item);
        writes.push({ row, ...(changes.isFlat && { item }), fed: this.#fedBy(current, item) });
      }
    }
    if (failed.length > 0) return { ok: false, failed };
    if (writes.length > 0) await this.#write(writes);
    return { ok: true };
  }

  /** Removes at most `limit` expired items and returns their number. Call {@link SqliteTable.forget} afterwards. */
  purgeExpired(limit: number): Promise<number> {
    return this.#database.purge(this.#name, epochSeconds(this.#clock.now()), limit);
  }

  /** Forgets items in memory, among which are expired ones that are no longer stored. */
  forget(): void {
    this.#remembered.clear();
  }

  #read(key: Key, name: string): Item | undefined {
    const known = this.#remembered.get(name);
    if (known !== undefined) return known ?? undefined;
    if (this.#ids?.isFresh(key.sk)) return undefined;
    const waiting = this.#database.waiting(this.#name, name);
    const text = waiting ? waiting.text : (this.#get.get(key.pk, key.sk)?.item as string | undefined);
    const item = text === undefined ? undefined : (JSON.parse(text) as Item);
    this.#remembered.set(name, text, item);
    return item;
  }

  #holds(condition: Condition | undefined, key: Key, name: string): boolean {
    if (condition === undefined) return true;
    const isAboutItem = (condition.op === 'exists' || condition.op === 'absent') && condition.attribute === undefined;
    if (!isAboutItem) return holds(condition, this.#read(key, name));
    const isThere = this.#remembered.has(name) ?? this.#read(key, name) !== undefined;
    return isThere === (condition.op === 'exists');
  }

  /** Reads an item, also an expired one. */
  readAny(key: Key): Item | undefined {
    const item = this.#read(key, nameOf(key));
    return item && frozen(item);
  }

  /** Returns the row of an update for the feed, if it belongs there. */
  #fedBy(before: Item | undefined, after: Item): FeedRow | undefined {
    return before !== undefined && this.#feed?.rule(before, after) ? this.#feed.rowFor(after) : undefined;
  }

  #visible(key: Key): Item | undefined {
    const item = this.#read(key, nameOf(key));
    return item && !isExpired(item, this.#clock) ? frozen(item) : undefined;
  }

  /** Items must not stay in the cache if their write fails. */
  async #write(writes: readonly Write[]): Promise<void> {
    const rows: Row[] = [];
    const fed: FeedRow[] = [];
    for (const { row, item, fed: own } of writes) {
      this.#ids?.taken(row.sk);
      this.#remembered.set(row.name, row.text, item ?? row.text);
      rows.push(row);
      if (own !== undefined) fed.push(own);
    }
    for (const { row } of fed) rows.push(row);
    try {
      await this.#database.write(rows);
      for (const each of fed) this.#feed!.isWritten(each);
    } catch (error) {
      this.#remembered.clear();
      throw error;
    }
  }

  #prepare(sql: string): StatementSync {
    let statement = this.#prepared.get(sql);
    if (!statement) {
      statement = this.#database.db.prepare(sql);
      this.#prepared.set(sql, statement);
    }
    return statement;
  }

  #stored(plan: QueryPlan): string[] {
    // One item more than requested shows whether another page follows.
    const { sql, values } = this.#select(plan, ['item'], plan.limit + 1);
    return this.#prepare(sql)
      .all(...values)
      .map((row) => row.item as string);
  }

  /** Merges the rows in memory with those rows of the database that are not superseded in memory. */
  #merged(plan: QueryPlan): string[] {
    const { index, reverse, limit } = plan;
    const sortKey = index ? TABLE_SCHEMA.indexes[index].sortKey : TABLE_SCHEMA.sortKey;
    const compare = (a: Placed, b: Placed): number => {
      const order = compareUtf8(a[sortKey]!, b[sortKey]!) || compareUtf8(a.pk, b.pk) || compareUtf8(a.sk, b.sk);
      return reverse ? -order : order;
    };
    const isIn = this.#isIn(plan);
    const waiting = this.#database.allWaiting(this.#name, isIn).sort(compare);
    const texts: string[] = [];
    let next = 0;
    const takeWaiting = (until?: Placed): void => {
      while (texts.length <= limit && next < waiting.length && (!until || compare(waiting[next]!, until) < 0)) {
        texts.push(waiting[next]!.text!);
        next += 1;
      }
    };
    // The number of superseded rows is not known in advance.
    const { sql, values } = this.#select(plan, [...new Set(['pk', 'sk', sortKey, 'item'])], -1);
    for (const row of this.#prepare(sql).iterate(...values)) {
      const stored = row as unknown as Placed & { readonly item: string };
      if (this.#database.waiting(this.#name, nameOf(stored))) continue;
      takeWaiting(stored);
      if (texts.length > limit) break;
      texts.push(stored.item);
    }
    takeWaiting();
    return texts;
  }

  /** Returns whether a row matches the query; equivalent to {@link SqliteTable.#select}. */
  #isIn(plan: QueryPlan): (row: Row) => boolean {
    const { index, reverse, after } = plan;
    const sortKey = index ? TABLE_SCHEMA.indexes[index].sortKey : TABLE_SCHEMA.sortKey;
    const now = epochSeconds(this.#clock.now());
    const isPlaced = isPlacedIn(plan);
    const isPast = (row: Row, { indexSk, pk, sk }: Position): boolean => {
      const order = index
        ? compareUtf8(row[sortKey]!, indexSk!) || compareUtf8(row.pk, pk) || compareUtf8(row.sk, sk)
        : compareUtf8(row.sk, sk);
      return reverse ? order < 0 : order > 0;
    };
    return (row) =>
      isPlaced(row) &&
      row.text !== undefined &&
      (row.ttl === null || row.ttl > now) &&
      (after === undefined || isPast(row, after));
  }

  /** The conditions on the keys of a query. */
  #within({ pk, sk, index, reverse, after }: QueryPlan): { where: string[]; values: SQLInputValue[] } {
    const { partitionKey, sortKey } = index ? TABLE_SCHEMA.indexes[index] : TABLE_SCHEMA;
    const beyond = reverse ? '<' : '>';
    const where = [`${partitionKey} = ?`];
    const values: SQLInputValue[] = [pk];
    for (const [comparison, bound] of sk ? bounds(sk) : []) {
      // A later page starts at the end of the earlier one, not at the bound. The plus stops SQLite from seeking to the
      // bound.
      const isPassed = after !== undefined && comparison.startsWith(beyond);
      where.push(`${isPassed ? '+' : ''}${sortKey} ${comparison} ?`);
      values.push(bound);
    }
    return { where, values };
  }

  #select(plan: QueryPlan, columns: readonly string[], limit: number): { sql: string; values: SQLInputValue[] } {
    const { index, reverse, after } = plan;
    const sortKey = index ? TABLE_SCHEMA.indexes[index].sortKey : TABLE_SCHEMA.sortKey;
    const direction = reverse ? 'DESC' : 'ASC';
    const beyond = reverse ? '<' : '>';
    const { where, values } = this.#within(plan);
    where.push('(ttl IS NULL OR ttl > ?)');
    values.push(epochSeconds(this.#clock.now()));
    if (after && index) {
      where.push(`${sortKey} ${beyond}= ?`, `(${sortKey}, pk, sk) ${beyond} (?, ?, ?)`);
      values.push(after.indexSk!, after.indexSk!, after.pk, after.sk);
    } else if (after) {
      where.push(`sk ${beyond} ?`);
      values.push(after.sk);
    }
    const order = index ? [sortKey, 'pk', 'sk'] : ['sk'];
    const orderBy = order.map((column) => `${column} ${direction}`).join(', ');
    values.push(limit);
    return {
      sql: `SELECT ${columns.join(', ')} FROM ${this.#name} WHERE ${where.join(' AND ')} ORDER BY ${orderBy} LIMIT ?`,
      values,
    };
  }
}

/** A row and the item to cache. Without an item the cache parses the row's text on first use. */
interface Write {
  readonly row: Row;
  readonly item?: Item;
  /** Its row in the feed. */
  readonly fed?: FeedRow | undefined;
}

/** Keys of a row. Index keys are present if the row is in that index. */
type Placed = Pick<Row, 'pk' | 'sk' | 'gsi1pk' | 'gsi1sk' | 'gsi2pk' | 'gsi2sk'>;

/**
 * Recently read or written items, and keys known to be missing, so that repeated reads of the same key, agent,
 * membership or counter cost neither a query nor a parse. Always current, because no other process writes. Items are
 * shared between readers, so each is frozen before it leaves the adapter.
 */
class ItemCache {
  /**
   * JSON text until its first read; null for a missing item. Two generations, of which the older is dropped at once:
   * deleting the first entry of a `Map` is slow.
   */
  #newer = new Map<string, Item | string | null>();
  #older = new Map<string, Item | string | null>();

  get(name: string): Item | null | undefined {
    let known = this.#newer.get(name);
    if (known !== undefined && typeof known !== 'string') return known;
    known ??= this.#older.get(name);
    if (known === undefined) return undefined;
    const item = typeof known === 'string' ? (JSON.parse(known) as Item) : known;
    this.#keep(name, item);
    return item;
  }

  /** Returns whether the item exists, without parsing it, or `undefined` if that is not known. */
  has(name: string): boolean | undefined {
    let known = this.#newer.get(name);
    if (known === undefined) known = this.#older.get(name);
    return known === undefined ? undefined : known !== null;
  }

  /** Caches an item that was read, unless it is cached already. */
  add(name: string, text: string, item: Item): void {
    if (!this.#newer.has(name) && !this.#older.has(name)) this.set(name, text, item);
  }

  /** Caches `value`: the JSON text, its parsed item, or null for a missing item. */
  set(name: string, text = '', value: Item | string | null = null): void {
    if (text.length <= MAX_REMEMBERED_LENGTH) {
      this.#keep(name, value);
      return;
    }
    this.#newer.delete(name);
    this.#older.delete(name);
  }

  clear(): void {
    this.#newer.clear();
    this.#older.clear();
  }

  #keep(name: string, value: Item | string | null): void {
    if (this.#newer.size >= MAX_GENERATION) {
      this.#older = this.#newer;
      this.#newer = new Map();
    }
    this.#newer.set(name, value);
  }
}

/** Maximum entries of one generation. Both together take at most 16 MB. */
const MAX_GENERATION = 1_000;
const MAX_REMEMBERED_LENGTH = 8_192;

/** A frozen value is always deeply frozen. */
function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const member of Object.values(value)) frozen(member);
  return Object.freeze(value);
}

/** Names the partition of a query, as {@link partitionsOf} names those of a row. */
const partitionOf = ({ pk, index }: QueryPlan): string => `${index ?? ''} ${pk}`;
const partitionsOf = ({ pk, gsi1pk, gsi2pk }: Placed): string[] => [` ${pk}`, `gsi1 ${gsi1pk}`, `gsi2 ${gsi2pk}`];

/** Returns whether the keys of a row match the query. */
function isPlacedIn({ pk, sk, index }: QueryPlan): (row: Placed) => boolean {
  const { partitionKey, sortKey } = index ? TABLE_SCHEMA.indexes[index] : TABLE_SCHEMA;
  const limits = sk ? bounds(sk) : [];
  return (row) =>
    row[partitionKey] === pk &&
    limits.every(([comparison, bound]) => COMPARE[comparison](compareUtf8(row[sortKey]!, bound)));
}

type Comparison = '<' | '<=' | '>' | '>=';

const COMPARE: Record<Comparison, (order: number) => boolean> = {
  '<': (order) => order < 0,
  '<=': (order) => order <= 0,
  '>': (order) => order > 0,
  '>=': (order) => order >= 0,
};

function bounds(range: SortKeyRange): (readonly [comparison: Comparison, bound: string])[] {
  if ('between' in range) {
    return [
      ['>=', range.between[0]],
      ['<=', range.between[1]],
    ];
  }
  if ('lessThan' in range) return [['<', range.lessThan]];
  if ('greaterThan' in range) return [['>', range.greaterThan]];
  const end = endOfPrefix(range.beginsWith);
  return [['>=', range.beginsWith], ...(end === undefined ? [] : [['<', end] as const])];
}

const LAST_CODE_POINT = 0x10ffff;

/**
 * Returns the smallest text after all texts with this prefix: its last code point plus one. Code points sort like
 * UTF-8.
 */
function endOfPrefix(prefix: string): string | undefined {
  const points = [...prefix].map((character) => character.codePointAt(0)!);
  while (points.at(-1) === LAST_CODE_POINT) points.pop();
  const last = points.pop();
  if (last === undefined) return undefined;
  // Skip the surrogates, which are not characters.
  return String.fromCodePoint(...points, last === 0xd7ff ? 0xe000 : last + 1);
}
