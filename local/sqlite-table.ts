import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
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
  type Attribute,
  applyChanges,
  checkBatch,
  checkCondition,
  checkKey,
  checkTransaction,
  type EncodedChanges,
  encodeChanges,
  encodeItem,
  holds,
  isExpired,
  itemText,
  operationKey,
  planQuery,
  type QueryPlan,
  TABLE_SCHEMA,
  type TableName,
} from '#core/ports/table-rules.ts';
import type { Database } from './database.ts';

/**
 * {@link Table} in a SQLite database: the item as JSON text beside the columns that are looked up.
 *
 * Its methods do their work before they return the promise, and `openDatabase` lets no other process in, so a read and
 * the write that follows from it need no transaction. One object for each table of a file: it remembers what it read.
 * SQLite compares text by its UTF-8 bytes, as DynamoDB does.
 */
export class SqliteTable implements Table {
  readonly #db: DatabaseSync;
  readonly #clock: Clock;
  readonly #name: TableName;
  readonly #get: StatementSync;
  readonly #put: StatementSync;
  readonly #delete: StatementSync;
  readonly #purge: StatementSync;
  readonly #queries = new Map<string, StatementSync>();
  readonly #remembered = new ItemCache();

  constructor({ db }: Database, name: TableName, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
    this.#name = name;
    db.exec(`
      CREATE TABLE IF NOT EXISTS ${name} (
        pk TEXT NOT NULL,
        sk TEXT NOT NULL,
        item TEXT NOT NULL,
        ttl INTEGER,
        gsi1pk TEXT, gsi1sk TEXT,
        gsi2pk TEXT, gsi2sk TEXT,
        PRIMARY KEY (pk, sk)
      ) WITHOUT ROWID;
      CREATE INDEX IF NOT EXISTS ${name}_gsi1 ON ${name} (gsi1pk, gsi1sk) WHERE gsi1pk IS NOT NULL;
      CREATE INDEX IF NOT EXISTS ${name}_gsi2 ON ${name} (gsi2pk, gsi2sk) WHERE gsi2pk IS NOT NULL;
      CREATE INDEX IF NOT EXISTS ${name}_ttl ON ${name} (ttl) WHERE ttl IS NOT NULL;
    `);
    this.#get = db.prepare(`SELECT item FROM ${name} WHERE pk = ? AND sk = ?`);
    this.#put = db.prepare(`INSERT OR REPLACE INTO ${name} VALUES (?, ?, ?, ?, ?, ?, ?, ?)`);
    this.#delete = db.prepare(`DELETE FROM ${name} WHERE pk = ? AND sk = ?`);
    this.#purge = db.prepare(
      `DELETE FROM ${name} WHERE (pk, sk) IN (SELECT pk, sk FROM ${name} WHERE ttl <= ? ORDER BY ttl LIMIT ?)`,
    );
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
    const attributes = encodeItem(item);
    checkCondition(condition);
    if (condition && !holds(condition, this.#read(item))) return { ok: false };
    this.#write(item, attributes);
    return { ok: true };
  }

  async update(key: Key, changes: Changes, condition?: Condition): Promise<UpdateResult> {
    const encoded = encodeChanges(key, changes);
    checkCondition(condition);
    const current = this.#read(key);
    if (!holds(condition, current)) return { ok: false };
    const { item, attributes } = changed(key, current, encoded);
    this.#write(item, attributes);
    return { ok: true, item };
  }

  async delete(key: Key, condition?: Condition): Promise<WriteResult> {
    checkKey(key);
    checkCondition(condition);
    if (condition && !holds(condition, this.#read(key))) return { ok: false };
    this.#remove(key);
    return { ok: true };
  }

  async query(query: Query): Promise<Page> {
    const plan = planQuery(query);
    const { sql, values } = this.#select(plan);
    let statement = this.#queries.get(sql);
    if (!statement) {
      statement = this.#db.prepare(sql);
      this.#queries.set(sql, statement);
    }
    const items = statement.all(...values).map((row) => JSON.parse(row.item as string) as Item);
    if (items.length <= plan.limit) return { items };
    items.pop();
    return { items, cursor: plan.cursorAfter(items.at(-1)!) };
  }

  async transact(operations: readonly TransactOperation[]): Promise<TransactResult> {
    checkTransaction(operations);
    const encoded = operations.map((operation) => ({
      operation,
      put: operation.op === 'put' ? encodeItem(operation.item) : undefined,
      update: operation.op === 'update' ? encodeChanges(operation.key, operation.changes) : undefined,
    }));
    const failed: number[] = [];
    const writes: (() => void)[] = [];
    for (const [position, { operation, put, update }] of encoded.entries()) {
      const key = operationKey(operation);
      const current = operation.condition || update ? this.#read(key) : undefined;
      const met = holds(operation.condition, current);
      if (!met) failed.push(position);
      if (operation.op === 'put') writes.push(() => this.#write(operation.item, put!));
      if (operation.op === 'delete') writes.push(() => this.#remove(key));
      if (operation.op === 'update' && met) {
        // Here, before any write, for a wrong change must leave everything as it was.
        const { item, attributes } = changed(key, current, update!);
        writes.push(() => this.#write(item, attributes));
      }
    }
    if (failed.length > 0) return { ok: false, failed };
    this.#db.exec('BEGIN IMMEDIATE');
    try {
      for (const write of writes) write();
      this.#db.exec('COMMIT');
    } catch (error) {
      this.#db.exec('ROLLBACK');
      throw error;
    }
    return { ok: true };
  }

  /** Removes at most `limit` expired items and says how many they were: call again while it is `limit`. */
  purgeExpired(limit = 500): number {
    const { changes } = this.#purge.run(epochSeconds(this.#clock.now()), limit);
    if (changes > 0) this.#remembered.clear();
    return Number(changes);
  }

  #read(key: Key): Item | undefined {
    const known = this.#remembered.get(key);
    if (known) return known;
    const row = this.#get.get(key.pk, key.sk);
    return row && this.#remembered.add(key, row.item as string);
  }

  #visible(key: Key): Item | undefined {
    const item = this.#read(key);
    return item && !isExpired(item, this.#clock) ? item : undefined;
  }

  #remove(key: Key): void {
    this.#remembered.forget(key);
    this.#delete.run(key.pk, key.sk);
  }

  #write(item: Item, attributes: readonly Attribute[]): void {
    this.#remembered.forget(item);
    const { pk, sk, ttl = null } = item;
    const [gsi1pk, gsi1sk] = indexKey(item.gsi1pk, item.gsi1sk);
    const [gsi2pk, gsi2sk] = indexKey(item.gsi2pk, item.gsi2sk);
    this.#put.run(pk, sk, itemText(attributes), ttl, gsi1pk, gsi1sk, gsi2pk, gsi2sk);
  }

  #select({ pk, sk, index, limit, reverse, after }: QueryPlan): { sql: string; values: SQLInputValue[] } {
    const { partitionKey, sortKey } = index ? TABLE_SCHEMA.indexes[index] : TABLE_SCHEMA;
    const direction = reverse ? 'DESC' : 'ASC';
    const beyond = reverse ? '<' : '>';
    const where = [`${partitionKey} = ?`, '(ttl IS NULL OR ttl > ?)'];
    const values: SQLInputValue[] = [pk, epochSeconds(this.#clock.now())];
    for (const [comparison, bound] of sk ? bounds(sk) : []) {
      // A later page begins where the earlier one ended, not at the bound: the plus keeps SQLite from seeking that.
      const isPassed = after !== undefined && comparison.startsWith(beyond);
      where.push(`${isPassed ? '+' : ''}${sortKey} ${comparison} ?`);
      values.push(bound);
    }
    if (after && index) {
      where.push(`${sortKey} ${beyond}= ?`, `(${sortKey}, pk, sk) ${beyond} (?, ?, ?)`);
      values.push(after.indexSk!, after.indexSk!, after.pk, after.sk);
    } else if (after) {
      where.push(`sk ${beyond} ?`);
      values.push(after.sk);
    }
    const order = index ? [sortKey, 'pk', 'sk'] : ['sk'];
    const orderBy = order.map((column) => `${column} ${direction}`).join(', ');
    // One more than asked for tells whether another page follows.
    values.push(limit + 1);
    return { sql: `SELECT item FROM ${this.#name} WHERE ${where.join(' AND ')} ORDER BY ${orderBy} LIMIT ?`, values };
  }
}

/**
 * Items that were read lately, so that looking up the same key, agent or membership for each request costs neither a
 * query nor a parse. Always true, as nobody else writes: a write forgets its item before it happens. What is in it is
 * frozen, as more than one reader has it.
 */
class ItemCache {
  readonly #items = new Map<string, Item>();

  get(key: Key): Item | undefined {
    return this.#items.get(nameOf(key));
  }

  add(key: Key, text: string): Item {
    const item = JSON.parse(text) as Item;
    if (text.length > MAX_REMEMBERED_LENGTH) return item;
    if (this.#items.size >= MAX_REMEMBERED) this.#items.delete(this.#items.keys().next().value!);
    this.#items.set(nameOf(key), deepFreeze(item));
    return item;
  }

  forget(key: Key): void {
    this.#items.delete(nameOf(key));
  }

  clear(): void {
    this.#items.clear();
  }
}

/** 40 MB at the very most. */
const MAX_REMEMBERED = 5_000;
const MAX_REMEMBERED_LENGTH = 8_192;

/** The length in front keeps two keys apart whatever characters they hold. */
const nameOf = ({ pk, sk }: Key): string => `${pk.length}:${pk}${sk}`;

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) {
    for (const member of Object.values(value)) deepFreeze(member);
    Object.freeze(value);
  }
  return value;
}

function changed(
  key: Key,
  current: Item | undefined,
  changes: EncodedChanges,
): { item: Item; attributes: Attribute[] } {
  const attributes = encodeItem(applyChanges(key, current, changes));
  return { attributes, item: JSON.parse(itemText(attributes)) as Item };
}

/** The item stands in an index only when it has both keys of it. */
const indexKey = (pk: string | undefined, sk: string | undefined): [string | null, string | null] =>
  pk === undefined || sk === undefined ? [null, null] : [pk, sk];

function bounds(range: SortKeyRange): (readonly [comparison: '<' | '<=' | '>' | '>=', bound: string])[] {
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

/** The least text past all that begin with `prefix`: its last code point, one higher. The order of code points is that of UTF-8. */
function endOfPrefix(prefix: string): string | undefined {
  const points = [...prefix].map((character) => character.codePointAt(0)!);
  while (points.at(-1) === LAST_CODE_POINT) points.pop();
  const last = points.pop();
  if (last === undefined) return undefined;
  // Surrogates are no characters.
  return String.fromCodePoint(...points, last === 0xd7ff ? 0xe000 : last + 1);
}
