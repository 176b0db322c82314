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
  checkBatch,
  checkChanges,
  checkCondition,
  checkKey,
  checkTransaction,
  holds,
  isExpired,
  operationKey,
  planQuery,
  type QueryPlan,
  TABLE_SCHEMA,
  type TableName,
  textOfItem,
} from '#core/ports/table-rules.ts';
import type { Database } from './database.ts';

/**
 * {@link Table} in a SQLite database: an item's JSON text, beside the columns that queries use.
 *
 * Methods work synchronously before they return the promise, and `openDatabase` lets no other process in, so a read and
 * its following write are atomic. Make one object per table and file, because it caches items. SQLite compares text by
 * its UTF-8 bytes, as DynamoDB does.
 */
export class SqliteTable implements Table {
  readonly #database: Database;
  readonly #clock: Clock;
  readonly #name: TableName;
  readonly #get: StatementSync;
  readonly #put: StatementSync;
  readonly #delete: StatementSync;
  readonly #purge: StatementSync;
  /** SQL text -> statement. */
  readonly #prepared = new Map<string, StatementSync>();
  readonly #remembered = new ItemCache();

  constructor(database: Database, name: TableName, clock: Clock) {
    const { db } = database;
    this.#database = database;
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
    const text = textOfItem(item);
    checkCondition(condition);
    const current = condition && this.#read(item);
    if (!holds(condition, current)) return { ok: false };
    await this.#durably(() => this.#change(item, text, current, text));
    return { ok: true };
  }

  async update(key: Key, changes: Changes, condition?: Condition): Promise<UpdateResult> {
    const checked = checkChanges(key, changes);
    checkCondition(condition);
    const current = this.#read(key);
    if (!holds(condition, current)) return { ok: false };
    const { item, text } = applyChanges(key, current, checked);
    await this.#durably(() => this.#change(item, text, current, item));
    return { ok: true, item: frozen(item) };
  }

  async delete(key: Key, condition?: Condition): Promise<WriteResult> {
    checkKey(key);
    checkCondition(condition);
    if (condition && !holds(condition, this.#read(key))) return { ok: false };
    await this.#durably(() => this.#remove(key));
    return { ok: true };
  }

  async query(query: Query): Promise<Page> {
    const plan = planQuery(query);
    const { sql, values } = this.#select(plan);
    const items = this.#prepare(sql)
      .all(...values)
      .map((row) => JSON.parse(row.item as string) as Item);
    if (items.length <= plan.limit) return { items };
    items.pop();
    return { items, cursor: plan.cursorAfter(items.at(-1)!) };
  }

  async transact(operations: readonly TransactOperation[]): Promise<TransactResult> {
    checkTransaction(operations);
    const encoded = operations.map((operation) => ({
      operation,
      put: operation.op === 'put' ? textOfItem(operation.item) : undefined,
      update: operation.op === 'update' ? checkChanges(operation.key, operation.changes) : undefined,
    }));
    const failed: number[] = [];
    const writes: (() => void)[] = [];
    for (const [position, { operation, put, update }] of encoded.entries()) {
      const key = operationKey(operation);
      const current = operation.condition || update ? this.#read(key) : undefined;
      const met = holds(operation.condition, current);
      if (!met) failed.push(position);
      if (operation.op === 'put') writes.push(() => this.#change(operation.item, put!, current, put!));
      if (operation.op === 'delete') writes.push(() => this.#remove(key));
      if (operation.op === 'update' && met) {
        // Before any write, so that an invalid change leaves everything unchanged.
        const { item, text } = applyChanges(key, current, update!);
        writes.push(() => this.#change(item, text, current, item));
      }
    }
    if (failed.length > 0) return { ok: false, failed };
    await this.#durably(() => {
      for (const write of writes) write();
    });
    return { ok: true };
  }

  /** Removes at most `limit` expired items and returns their number. Call it again while it returns `limit`. */
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
    return item && !isExpired(item, this.#clock) ? frozen(item) : undefined;
  }

  /** Items that were read inside must not stay in the cache if they were never committed. */
  async #durably(work: () => void): Promise<void> {
    try {
      await this.#database.write(work);
    } catch (error) {
      this.#remembered.clear();
      throw error;
    }
  }

  #remove(key: Key): void {
    this.#remembered.forget(key);
    this.#delete.run(key.pk, key.sk);
  }

  #replace(item: Item, text: string): void {
    this.#put.run(item.pk, item.sk, text, ...Object.values(columnsOf(item)));
  }

  /**
   * Writing an index costs as much as writing the table, so unchanged indexes are left alone. `kept` goes into the cache:
   * the item itself, unless a caller has it.
   */
  #change(item: Item, text: string, before: Item | undefined, kept: Item | string): void {
    this.#remembered.set(item, text, kept);
    if (before === undefined) {
      this.#replace(item, text);
      return;
    }
    const old = columnsOf(before);
    const changed = Object.entries(columnsOf(item)).filter(([column, value]) => value !== old[column as Column]);
    const set = ['item', ...changed.map(([column]) => column)].map((column) => `${column} = ?`).join(', ');
    const update = this.#prepare(`UPDATE ${this.#name} SET ${set} WHERE pk = ? AND sk = ?`);
    update.run(text, ...changed.map(([, value]) => value), item.pk, item.sk);
  }

  #prepare(sql: string): StatementSync {
    let statement = this.#prepared.get(sql);
    if (!statement) {
      statement = this.#database.db.prepare(sql);
      this.#prepared.set(sql, statement);
    }
    return statement;
  }

  #select({ pk, sk, index, limit, reverse, after }: QueryPlan): { sql: string; values: SQLInputValue[] } {
    const { partitionKey, sortKey } = index ? TABLE_SCHEMA.indexes[index] : TABLE_SCHEMA;
    const direction = reverse ? 'DESC' : 'ASC';
    const beyond = reverse ? '<' : '>';
    const where = [`${partitionKey} = ?`, '(ttl IS NULL OR ttl > ?)'];
    const values: SQLInputValue[] = [pk, epochSeconds(this.#clock.now())];
    for (const [comparison, bound] of sk ? bounds(sk) : []) {
      // A later page begins at the end of the earlier one, not at the bound: the plus stops SQLite from seeking the bound.
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
    // One item more than requested shows whether another page follows.
    values.push(limit + 1);
    return { sql: `SELECT item FROM ${this.#name} WHERE ${where.join(' AND ')} ORDER BY ${orderBy} LIMIT ?`, values };
  }
}

/**
 * Recently read or written items, so that looking up the same key, agent or membership for each request costs neither a
 * query nor a parse. Always current, because no other process writes. Readers share items, so one is frozen before it leaves the adapter.
 */
class ItemCache {
  /** JSON text until its first read. */
  readonly #items = new Map<string, Item | string>();

  get(key: Key): Item | undefined {
    const known = this.#items.get(nameOf(key));
    return typeof known === 'string' ? this.add(key, known) : known;
  }

  add(key: Key, text: string): Item {
    const item = JSON.parse(text) as Item;
    this.set(key, text, item);
    return item;
  }

  /** `value`: `text`, or its parsed item. */
  set(key: Key, text: string, value: Item | string): void {
    if (text.length > MAX_REMEMBERED_LENGTH) this.forget(key);
    else this.#keep(key, value);
  }

  forget(key: Key): void {
    this.#items.delete(nameOf(key));
  }

  clear(): void {
    this.#items.clear();
  }

  #keep(key: Key, value: Item | string): void {
    const name = nameOf(key);
    if (this.#items.size >= MAX_REMEMBERED && !this.#items.has(name)) {
      this.#items.delete(this.#items.keys().next().value!);
    }
    this.#items.set(name, value);
  }
}

/** At most 8 MB. */
const MAX_REMEMBERED = 1_000;
const MAX_REMEMBERED_LENGTH = 8_192;

/** The length in front makes names unique, whatever characters the keys contain. */
const nameOf = ({ pk, sk }: Key): string => `${pk.length}:${pk}${sk}`;

/** What is frozen already is frozen as a whole. */
function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const member of Object.values(value)) frozen(member);
  return Object.freeze(value);
}

type Column = 'ttl' | 'gsi1pk' | 'gsi1sk' | 'gsi2pk' | 'gsi2sk';

/** Values of the other columns, in the table's order. An item is in an index only if it has both of its keys. */
function columnsOf({ ttl, gsi1pk, gsi1sk, gsi2pk, gsi2sk }: Item): Record<Column, string | number | null> {
  const isIn1 = gsi1pk !== undefined && gsi1sk !== undefined;
  const isIn2 = gsi2pk !== undefined && gsi2sk !== undefined;
  return {
    ttl: ttl ?? null,
    gsi1pk: isIn1 ? gsi1pk : null,
    gsi1sk: isIn1 ? gsi1sk : null,
    gsi2pk: isIn2 ? gsi2pk : null,
    gsi2sk: isIn2 ? gsi2sk : null,
  };
}

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

/** The smallest text after all texts with this prefix: its last code point plus one. Code points sort like UTF-8. */
function endOfPrefix(prefix: string): string | undefined {
  const points = [...prefix].map((character) => character.codePointAt(0)!);
  while (points.at(-1) === LAST_CODE_POINT) points.pop();
  const last = points.pop();
  if (last === undefined) return undefined;
  // Surrogates are not characters.
  return String.fromCodePoint(...points, last === 0xd7ff ? 0xe000 : last + 1);
}
