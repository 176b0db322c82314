import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Item, Key } from '#core/ports/table.ts';
import { TABLE_NAMES, type TableName } from '#core/ports/table-rules.ts';

/** The state of one key in one table: an item's JSON text, beside the columns that queries use. */
export class Row {
  readonly table: TableName;
  readonly pk: string;
  readonly sk: string;
  /** Unique in its table. */
  readonly name: string;
  /** `undefined` if the item does not exist (any more). */
  readonly text: string | undefined;
  readonly ttl: number | null;
  readonly gsi1pk: string | null;
  readonly gsi1sk: string | null;
  readonly gsi2pk: string | null;
  readonly gsi2sk: string | null;

  constructor(table: TableName, name: string, text: string | undefined, columns: Columns) {
    const { gsi1pk, gsi1sk, gsi2pk, gsi2sk } = columns;
    this.table = table;
    this.pk = columns.pk;
    this.sk = columns.sk;
    this.name = name;
    this.text = text;
    this.ttl = columns.ttl ?? null;
    // An item is in an index only if it has both of its keys.
    const isIn1 = gsi1pk != null && gsi1sk != null;
    const isIn2 = gsi2pk != null && gsi2sk != null;
    this.gsi1pk = isIn1 ? gsi1pk : null;
    this.gsi1sk = isIn1 ? gsi1sk : null;
    this.gsi2pk = isIn2 ? gsi2pk : null;
    this.gsi2sk = isIn2 ? gsi2sk : null;
  }
}

type Columns = { readonly [Name in 'ttl' | 'gsi1pk' | 'gsi1sk' | 'gsi2pk' | 'gsi2sk']?: Item[Name] | null } & Key;

/** The length prefix makes names unique for any characters in the keys. */
export const nameOf = ({ pk, sk }: Key): string => `${pk.length}:${pk}${sk}`;

/** Statements that create the tables of an empty database. SQLite compares text by its UTF-8 bytes, like DynamoDB. */
export const TABLES = TABLE_NAMES.map(
  (name) => `
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
  `,
).join('');

/** Writes rows to the tables of a database file. */
export class WrittenRows {
  readonly #db: DatabaseSync;
  readonly #statements: Record<TableName, { put: StatementSync; delete: StatementSync; purge: StatementSync }>;

  constructor(db: DatabaseSync) {
    this.#db = db;
    const statementsOf = (name: TableName) => ({
      put: db.prepare(`INSERT OR REPLACE INTO ${name} VALUES (?, ?, ?, ?, ?, ?, ?, ?)`),
      delete: db.prepare(`DELETE FROM ${name} WHERE pk = ? AND sk = ?`),
      purge: db.prepare(
        `DELETE FROM ${name} WHERE (pk, sk) IN (SELECT pk, sk FROM ${name} WHERE ttl <= ? ORDER BY ttl LIMIT ?)`,
      ),
    });
    this.#statements = { main: statementsOf('main'), runs: statementsOf('runs'), counters: statementsOf('counters') };
  }

  /** Writes all rows in one transaction. Idempotent. */
  apply(rows: Iterable<Row>): void {
    this.#db.exec('BEGIN IMMEDIATE');
    try {
      for (const { table, pk, sk, text, ttl, gsi1pk, gsi1sk, gsi2pk, gsi2sk } of rows) {
        const { put, delete: remove } = this.#statements[table];
        if (text === undefined) remove.run(pk, sk);
        else put.run(pk, sk, text, ttl, gsi1pk, gsi1sk, gsi2pk, gsi2sk);
      }
      this.#db.exec('COMMIT');
    } catch (error) {
      // SQLite may have rolled back already, for example when the disk is full.
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK');
      throw error;
    }
  }

  /** Removes at most `limit` items that expired by `now` (epoch seconds), and returns their number. */
  purge(table: TableName, now: number, limit: number): number {
    return Number(this.#statements[table].purge.run(now, limit).changes);
  }
}
