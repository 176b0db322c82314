import type { Clock } from '#core/ports/clock.ts';
import type { OwnItems, Scan } from '#core/ports/scan.ts';
import type { Item } from '#core/ports/table.ts';
import { isExpired, type TableName } from '#core/ports/table-rules.ts';
import type { Database } from './database.ts';

const PAGE = 500;

interface StoredRow {
  readonly pk: string;
  readonly sk: string;
  readonly item: string;
}

/** {@link Scan} of a local database. */
export class SqliteScan implements Scan {
  readonly #database: Database;
  readonly #clock: Clock;

  constructor(database: Database, clock: Clock) {
    this.#database = database;
    this.#clock = clock;
  }

  async *items(table: TableName, { partitions, workspaceId }: OwnItems): AsyncGenerator<Item> {
    // What is written from now on may be left out.
    await this.#database.settle();
    const page = this.#database.db.prepare(
      `SELECT pk, sk, item FROM ${table} WHERE (pk, sk) > (?, ?) ORDER BY pk, sk LIMIT ${PAGE}`,
    );
    let last = { pk: '', sk: '' };
    for (;;) {
      const rows = page.all(last.pk, last.sk) as unknown as StoredRow[];
      for (const { pk, item: text } of rows) {
        if (!text.includes(workspaceId) && !partitions.some((each) => pk.startsWith(each))) continue;
        const item = JSON.parse(text) as Item;
        if (!isExpired(item, this.#clock)) yield item;
      }
      const end = rows.at(-1);
      if (end === undefined) return;
      last = end;
    }
  }
}
