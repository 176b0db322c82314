import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { openDatabase } from './database.ts';
import { shrink } from './shrink.ts';
import { SqliteTable } from './sqlite-table.ts';
import { Upkeep } from './upkeep.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'upkeep-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const log = { debug() {}, info() {}, warn: (message: string) => expect.fail(message), error() {} };
/** Rests for as long as a turn of the event loop. */
const hasty = { sleep: () => new Promise<void>((done) => setImmediate(done)) };

/** Counts what each order removes. */
function counted<Names extends string>(
  target: { readonly [Name in Names]: (...args: never[]) => Promise<number> },
  name: Names,
) {
  const counts: number[] = [];
  const work = target[name].bind(target) as (...args: unknown[]) => Promise<number>;
  Object.assign(target, {
    async [name](...args: unknown[]) {
      const count = await work(...args);
      counts.push(count);
      return count;
    },
  });
  return counts;
}

test('expired items go in small pieces, all in one round, and calls are answered between them', async () => {
  const clock = new ManualClock();
  const database = openDatabase(join(folder, 'platform.sqlite'));
  const table = new SqliteTable(database, 'runs', clock);
  const now = clock.now() / 1000;
  const put = (sk: string, ttl: number) => table.put({ pk: 'p', sk, ttl });
  await Promise.all(Array.from({ length: 1_050 }, (_, n) => put(`old-${n}`, now - n)));
  await put('kept', now + 10);
  await database.settle();
  const pieces = counted(database, 'purge');
  const upkeep = new Upkeep({ clock: hasty, log, database, tables: [table] });
  let writes = 0;
  const round = upkeep.run();
  // A second round joins the first.
  const again = upkeep.run();
  const isOver = round.then(() => true);
  while (!(await Promise.race([isOver, table.put({ pk: 'p', sk: 'call', n: writes }).then(() => false)]))) writes += 1;
  await again;
  expect(Math.max(...pieces)).toBe(200);
  expect(pieces.length).toBe(6);
  expect(pieces.reduce((sum, count) => sum + count)).toBe(1_050);
  expect(writes).toBeGreaterThan(pieces.length);
  await upkeep.close();
  expect((await table.query({ pk: 'p' })).items.map(({ sk }) => sk)).toEqual(['call', 'kept']);
  await database.close();
});

test('a round that is closed ends after its piece', async () => {
  const clock = new ManualClock();
  const database = openDatabase(':memory:');
  const table = new SqliteTable(database, 'runs', clock);
  for (let n = 0; n < 250; n += 1) await table.put({ pk: 'p', sk: `${n}`, ttl: 1 });
  const pieces = counted(database, 'purge');
  const upkeep = new Upkeep({ clock, log, database, tables: [table] });
  const round = upkeep.run();
  await expect.poll(() => clock.sleepers).toBe(1);
  await upkeep.close();
  await round;
  expect(pieces).toEqual([200]);
});

test('a file gives unused pages back in small pieces, and keeps a quarter for new records', async () => {
  const path = join(folder, 'platform.sqlite');
  const database = openDatabase(path);
  const table = new SqliteTable(database, 'runs', new ManualClock());
  for (let n = 0; n < 1_000; n += 1) void table.put({ pk: 'p', sk: `${n}`.padStart(4, '0'), text: 'x'.repeat(7_000) });
  await database.settle();
  for (let n = 0; n < 900; n += 1) void table.delete({ pk: 'p', sk: `${n}`.padStart(4, '0') });
  await database.settle();
  // Few unused pages stay.
  expect(await database.shrink(100)).toBe(0);
  await database.close();
  const before = statSync(path).size;
  const db = new DatabaseSync(path);
  const pieces: number[] = [];
  do pieces.push(shrink(db, 100, 10));
  while (pieces.at(-1) === 100);
  expect(pieces.length).toBeGreaterThan(4);
  const { freelist_count: unused } = db.prepare('PRAGMA freelist_count').get()!;
  const { page_count: pages } = db.prepare('PRAGMA page_count').get()!;
  expect(Number(unused) / Number(pages)).toBeCloseTo(0.25, 1);
  expect(db.prepare('PRAGMA integrity_check').get()).toEqual({ integrity_check: 'ok' });
  db.close();
  expect(statSync(path).size).toBeLessThan(before / 3);
});

test('a file of an earlier version is not shrunk', () => {
  const db = new DatabaseSync(join(folder, 'old.sqlite'));
  db.exec('CREATE TABLE t (text TEXT); INSERT INTO t VALUES (zeroblob(1000000)); DELETE FROM t');
  expect(Number(db.prepare('PRAGMA freelist_count').get()!.freelist_count)).toBeGreaterThan(100);
  expect(shrink(db, 100, 10)).toBe(0);
  db.close();
});
