import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { FeedRecord, FeedRule } from '#core/ports/feed.ts';
import { absent, equals } from '#core/ports/table.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { type Database, openDatabase } from './database.ts';
import { LocalFeed } from './local-feed.ts';
import { SqliteTable } from './sqlite-table.ts';

const rule: FeedRule = (before, after) => !before.done && after.done === true;

function feedOf(database: Database, consume: (records: readonly FeedRecord[]) => Promise<void>, everyMs = 0) {
  const feed = new LocalFeed(database, rule, everyMs);
  const table = new SqliteTable(database, 'runs', new ManualClock(), { feed });
  const warnings: string[] = [];
  feed.start(
    table,
    (_, records) => consume(records),
    (message) => warnings.push(message),
  );
  return { feed, table, warnings };
}

function collected(database: Database, everyMs?: number) {
  const records: FeedRecord[] = [];
  const made = feedOf(database, async (more) => void records.push(...more), everyMs);
  return { ...made, records, names: () => records.map(({ item }) => item.sk) };
}

const begin = (table: SqliteTable, sk: string) => table.put({ pk: 'p', sk });
const finish = (table: SqliteTable, sk: string) =>
  table.update({ pk: 'p', sk }, { set: { done: true } }, absent('done'));

test('updates that the rule selects are consumed in order, once, and others are not', async () => {
  const database = openDatabase(':memory:');
  onTestFinished(() => database.close());
  const { feed, table, names, records } = collected(database);
  for (const sk of ['a', 'b', 'c', 'd']) await begin(table, sk);
  await finish(table, 'b');
  await finish(table, 'a');
  expect(await finish(table, 'a')).toEqual({ ok: false });
  await table.update({ pk: 'p', sk: 'a' }, { set: { more: 1 } });
  await table.put({ pk: 'p', sk: 'new', done: true });
  await table.update({ pk: 'p', sk: 'created' }, { set: { done: true } });
  const refused = await table.transact([
    { op: 'update', key: { pk: 'p', sk: 'c' }, changes: { set: { done: true } } },
    { op: 'check', key: { pk: 'p', sk: 'd' }, condition: equals('done', true) },
  ]);
  expect(refused.ok).toBe(false);
  await table.transact([
    { op: 'update', key: { pk: 'p', sk: 'd' }, changes: { set: { done: true } } },
    { op: 'put', item: { pk: 'p', sk: 'e' } },
  ]);
  await feed.settle();
  expect(names()).toEqual(['b', 'a', 'd']);
  const sequences = records.map(({ sequence }) => sequence);
  expect(sequences).toEqual(sequences.toSorted());
  await feed.settle();
  expect(names()).toHaveLength(3);
});

test('a consumer that fails gets the same records again, before later ones', async () => {
  const database = openDatabase(':memory:');
  onTestFinished(() => database.close());
  let failures = 2;
  const batches: string[][] = [];
  const { feed, table, warnings } = feedOf(database, async (records) => {
    batches.push(records.map(({ item }) => item.sk));
    if (failures-- > 0) throw new Error('away');
  });
  await begin(table, 'a');
  await begin(table, 'b');
  await finish(table, 'a');
  await feed.settle();
  await finish(table, 'b');
  await feed.settle();
  await feed.settle();
  expect(batches).toEqual([['a'], ['a', 'b'], ['a', 'b']]);
  expect(warnings).toHaveLength(2);
});

test('without a reader, records are consumed after a moment, many at once', async () => {
  const database = openDatabase(':memory:');
  onTestFinished(() => database.close());
  const { table, names } = collected(database, 20);
  const all = Array.from({ length: 40 }, (_, n) => String(n).padStart(2, '0'));
  for (const sk of all) await begin(table, sk);
  for (const sk of all) await finish(table, sk);
  await expect.poll(names).toEqual(all);
});

test('what was not consumed comes after a restart, with later positions for later changes', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'local-feed-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const open = () => openDatabase(join(folder, 'platform.sqlite'));
  const seen: FeedRecord[] = [];
  for (let start = 0; start < 4; start++) {
    const database = open();
    const { feed, table, records, names } = collected(database);
    await feed.settle();
    // The last one that was consumed may come again.
    const fresh = records.filter(({ sequence }) => !seen.some((each) => each.sequence === sequence));
    expect(fresh.map(({ item }) => item.sk)).toEqual(start === 0 ? [] : [`${start - 1}c`]);
    expect(names().length - fresh.length).toBeLessThanOrEqual(1);
    for (const name of ['a', 'b', 'c']) await begin(table, `${start}${name}`);
    await finish(table, `${start}a`);
    await finish(table, `${start}b`);
    await feed.settle();
    seen.push(...records);
    await finish(table, `${start}c`);
    await database.close();
  }
  const sequences = seen.map(({ sequence }) => sequence);
  const last = sequences.filter((sequence, n) => n === 0 || sequence !== sequences[n - 1]);
  expect(last).toEqual(last.toSorted());
});

test('a change whose group fails is not consumed', async () => {
  const database = openDatabase(':memory:');
  onTestFinished(() => database.close());
  const { feed, table, names } = collected(database);
  await begin(table, 'a');
  const write = database.write.bind(database);
  database.write = () => Promise.reject(new Error('the disk is full'));
  await expect(finish(table, 'a')).rejects.toThrow('the disk is full');
  database.write = write;
  await feed.settle();
  expect(names()).toEqual([]);
});
