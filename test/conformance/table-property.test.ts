import { expect, test } from 'vitest';
import { type Database, openDatabase } from '#local/database/database.ts';
import { SqliteTable } from '#local/database/sqlite-table.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { compareTables, Host } from './table-property.ts';

const TIME_LIMIT_MS = 5_000;

/** Flushes each row to the database before its write is answered. */
function hasty(database: Database): Database {
  return {
    ...{ db: database.db, hasWaiting: () => false, waiting: () => undefined, allWaiting: () => [] },
    write: async (rows) => {
      await Promise.all([database.write(rows), database.settle()]);
    },
    changes: (table) => database.changes(table),
    settle: () => database.settle(),
    purge: (...args) => database.purge(...args),
    shrink: async () => 0,
    close: () => database.close(),
  };
}

test('rows that wait in memory are read as if they were written', { timeout: 10 * TIME_LIMIT_MS }, async () => {
  const sequences = await compareTables(TIME_LIMIT_MS, async () => {
    const clock = new ManualClock();
    const database = openDatabase(':memory:');
    const written = openDatabase(':memory:');
    const tables = [new SqliteTable(database, 'main', clock), new SqliteTable(hasty(written), 'main', clock)];
    return {
      hosts: tables.map((table) => new Host(table, '')),
      clock,
      settle: () => database.settle(),
      close: async () => {
        await Promise.all([database.close(), written.close()]);
      },
    };
  });
  expect(sequences).toBeGreaterThan(0);
});
