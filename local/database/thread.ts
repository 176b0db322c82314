import { existsSync, rmSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import type { TableName } from '#core/ports/table-rules.ts';
import { readJournal } from './journal.ts';
import { type Row, WrittenRows } from './rows.ts';
import { shrink } from './shrink.ts';

/** Applies journal files to the database in a separate thread, because a checkpoint takes many milliseconds. */
export type Order =
  | { readonly do: 'write'; readonly file: string }
  | { readonly do: 'end' }
  | { readonly do: 'purge'; readonly table: TableName; readonly now: number; readonly limit: number }
  | { readonly do: 'shrink'; readonly maxPages: number };

/** `error` is the error's message. */
export type Answer = { readonly count: number } | { readonly error: string };

const ROWS_BEFORE_REST = 40;
const REST_MS = 1;

export const THREAD = 'database';
export const THREAD_URL = import.meta.url;

export const PRAGMAS = `
  -- A run's record fits in: one that does not takes pages of its own, which doubles the file and the time to read it. Counts
  -- for a new file only.
  PRAGMA page_size = 8192;
  -- Free pages can be returned to the disk in small pieces. Counts for a new file only, too.
  PRAGMA auto_vacuum = INCREMENTAL;
  PRAGMA journal_mode = WAL;
  -- A file of the journal goes when its rows are on the disk.
  PRAGMA synchronous = FULL;
  -- Pages that change often, above all those of indexes, are written to the file once for many commits.
  PRAGMA wal_autocheckpoint = 4000;
  -- The log grows while a backup reads an old state, and gives the space back afterwards.
  PRAGMA journal_size_limit = 100000000;
  PRAGMA busy_timeout = 10000;
  PRAGMA cache_size = -8000;
`;

/** Sorts rows in the order of the tables, so that neighbours share pages. */
const sorted = (rows: Iterable<Row>): Row[] =>
  [...rows].sort((a, b) => order(a.table, b.table) || order(a.pk, b.pk) || order(a.sk, b.sk));
const order = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/**
 * Yields the rows with occasional pauses of a millisecond: on a machine with few cores a long batch would hold up
 * requests.
 */
function* paced(rows: Iterable<Row>): Generator<Row> {
  const never = new Int32Array(new SharedArrayBuffer(4));
  let count = 0;
  for (const row of rows) {
    if (++count % ROWS_BEFORE_REST === 0) Atomics.wait(never, 0, 0, REST_MS);
    yield row;
  }
}

if (workerData?.thread === THREAD) {
  const db = new DatabaseSync(workerData.path as string);
  db.exec(PRAGMAS);
  const rows = new WrittenRows(db);
  const perform = (order: Order): number => {
    if (order.do === 'purge') return rows.purge(order.table, order.now, order.limit);
    if (order.do === 'shrink') return shrink(db, order.maxPages);
    if (order.do === 'write') {
      // A thread that applied the file died before it could report it.
      if (!existsSync(order.file)) return 0;
      const { rows: written, end } = readJournal(order.file);
      if (end !== 'whole') throw new Error(`${order.file} is ${end}`);
      rows.apply(paced(sorted(written)));
      rmSync(order.file);
    } else {
      db.close();
      parentPort!.unref();
    }
    return 0;
  };
  parentPort!.on('message', (order: Order) => {
    let answer: Answer;
    try {
      answer = { count: perform(order) };
    } catch (error) {
      answer = { error: String(error) };
    }
    parentPort!.postMessage(answer);
  });
}
