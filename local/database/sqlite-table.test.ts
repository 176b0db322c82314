import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { absent, type Item, type Query } from '#core/ports/table.ts';
import { tableConformance } from '#test/conformance/table.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { FreshIds } from '../fresh-ids.ts';
import { openDatabase } from './database.ts';
import { SqliteTable } from './sqlite-table.ts';

describe('SqliteTable', () => {
  tableConformance(async () => {
    const clock = new ManualClock();
    return { clock, table: new SqliteTable(openDatabase(':memory:'), 'main', clock) };
  });

  test('purges expired items in batches, and nothing else', async () => {
    const clock = new ManualClock();
    const database = openDatabase(':memory:');
    const table = new SqliteTable(database, 'counters', clock);
    const now = clock.now() / 1000;
    await table.put({ pk: 'p', sk: 'kept' });
    await table.put({ pk: 'p', sk: 'later', ttl: now + 1 });
    for (let n = 0; n < 5; n += 1) await table.put({ pk: 'p', sk: `old-${n}`, ttl: now - n });
    for (const expected of [3, 2, 0]) expect(await table.purgeExpired(3)).toBe(expected);
    expect(database.db.prepare('SELECT sk FROM counters').all()).toEqual([{ sk: 'kept' }, { sk: 'later' }]);
  });

  test('counts the items of queries, in whatever state their rows are', async () => {
    const database = openDatabase(':memory:');
    const table = new SqliteTable(database, 'runs', new ManualClock());
    const sk = { between: ['1', '3~'] as const };
    const queries = ['a', 'b'].flatMap((pk): Query[] => [
      { pk, sk },
      { index: 'gsi2', pk: `${pk}#time`, sk },
    ]);
    const expectSame = async () => {
      const pages = await Promise.all(queries.map((query) => table.query({ ...query, limit: 1000 })));
      const counted = pages.map(({ items }) => items.length);
      expect(await table.count(queries)).toEqual(counted);
      return counted;
    };
    for (let n = 0; n < 300; n += 1) {
      const key = { pk: 'ab'[n % 2]!, sk: String((n * 7) % 60) };
      const time = { gsi2pk: `${'abc'[n % 3]}#time`, gsi2sk: String(n % 5) };
      if (n % 4 === 3) await table.delete(key);
      else await table.put({ ...key, ...(n % 6 > 0 && time) });
      await expectSame();
    }
    expect(database.hasWaiting('runs')).toBe(true);
    const counted = await expectSame();
    await database.settle();
    expect(await expectSame()).toEqual(counted);
    expect(Math.min(...counted)).toBeGreaterThan(2);
  });

  test('shares with its callers nothing that they can change', async () => {
    const table = new SqliteTable(openDatabase(':memory:'), 'main', new ManualClock());
    const key = { pk: 'p', sk: 's' };
    const given = { list: [1], map: { n: 1 } };
    const change = (item: Item | undefined, name: 'list' | 'map') => {
      (item as unknown as typeof given)[name] = { changed: true } as never;
    };
    await table.put({ ...key, ...given });
    given.list.push(2);
    const updated = await table.update(key, { set: { map: given.map } });
    given.map.n = 2;
    const kept = { ...key, list: [1], map: { n: 1 } };
    expect(await table.get(key)).toEqual(kept);
    const taken = [updated.ok ? updated.item : undefined, await table.get(key), (await table.batchGet([key]))[0]];
    for (const item of taken) {
      expect(() => change(item, 'map')).toThrow(TypeError);
      expect(() => (item as unknown as typeof given).list.push(3)).toThrow(TypeError);
    }
    change((await table.query({ pk: 'p' })).items[0], 'list');
    await table.update(key, { add: { n: 1 } });
    expect(await table.get(key)).toEqual({ ...kept, n: 1 });
    const after = await table.get(key);
    expect(() => (after as unknown as typeof given).list.push(3)).toThrow(TypeError);
  });

  test('does not look for a row with an id that was just made, until one is written', async () => {
    const database = openDatabase(':memory:');
    const ids = new FreshIds();
    const [table, other] = [ids, undefined].map(
      (own) => new SqliteTable(database, 'runs', new ManualClock(), { ids: own }),
    );
    const [known, fresh] = [ids.uuid(), ids.uuid()].map((id) => ({ pk: 'p', sk: id.replaceAll('-', '') }));
    for (const key of [known!, fresh!]) await other!.put({ ...key, by: 'another table' });
    expect(await table!.get(fresh!)).toBeUndefined();
    expect(await table!.put({ ...known!, n: 1 }, absent())).toEqual({ ok: true });
    await database.settle();
    const later = new SqliteTable(database, 'runs', new ManualClock(), { ids });
    expect(await later.put({ ...known!, n: 2 }, absent())).toEqual({ ok: false });
    expect(await later.get(known!)).toEqual({ ...known!, n: 1 });
  });

  test('moves items between indexes with an update', async () => {
    const table = new SqliteTable(openDatabase(':memory:'), 'main', new ManualClock());
    const key = { pk: 'p', sk: 's' };
    const inIndexes = async () => {
      const pages = (['gsi1', 'gsi2'] as const).map((index) => table.query({ index, pk: 'there' }));
      return (await Promise.all(pages)).map(({ items }) => items.length);
    };
    await table.put({ ...key, gsi1pk: 'there', gsi1sk: '1' });
    expect(await inIndexes()).toEqual([1, 0]);
    await table.update(key, { set: { gsi2pk: 'there', gsi2sk: '1' }, remove: ['gsi1sk'] });
    expect(await inIndexes()).toEqual([0, 1]);
    await table.update(key, { set: { n: 1 } });
    expect(await inIndexes()).toEqual([0, 1]);
  });

  test('looks everything up by an index', () => {
    const database = openDatabase(':memory:');
    const plan = (sql: string) =>
      database.db
        .prepare(`EXPLAIN QUERY PLAN ${sql}`)
        .all()
        .map((row) => row.detail);
    expect(plan('SELECT item FROM main WHERE gsi1pk = ? AND (ttl IS NULL OR ttl > ?) ORDER BY gsi1sk, pk, sk')).toEqual(
      ['SEARCH main USING INDEX main_gsi1 (gsi1pk=?)'],
    );
    expect(plan('SELECT item FROM main WHERE pk = ? AND (ttl IS NULL OR ttl > ?) ORDER BY sk DESC')).toEqual([
      'SEARCH main USING PRIMARY KEY (pk=?)',
    ]);
    expect(plan('SELECT pk, sk FROM main WHERE ttl <= ? ORDER BY ttl LIMIT 5')).toEqual([
      'SEARCH main USING COVERING INDEX main_ttl (ttl<?)',
    ]);
  });
});

describe('openDatabase', () => {
  let folder: string;
  let path: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'database-'));
    path = join(folder, 'data', 'platform.db');
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  test('makes a file whose pages hold records of runs whole', async () => {
    const database = openDatabase(path);
    const table = new SqliteTable(database, 'runs', new ManualClock());
    for (let n = 0; n < 100; n++) await table.put({ pk: 'p', sk: `${n}`, text: 'x'.repeat(1800) });
    await database.close();
    // Each item that does not fit takes another page.
    expect(statSync(path).size).toBeLessThan(100 * 1800 * 2);
  });

  test('loses what is written in the same turn as something that fails, and says so', async () => {
    const database = openDatabase(path);
    const table = new SqliteTable(database, 'main', new ManualClock());
    const key = { pk: 'p', sk: 's' };
    await table.put({ ...key, n: 1 });
    await database.settle();
    // Writes to the journal's next file fail.
    symlinkSync('/dev/full', `${path}.journal-2`);
    const other = { pk: 'p', sk: 'other' };
    const written = [table.update(key, { set: { n: 2 } }), table.put(other), table.delete(key), table.put(other)];
    expect(await table.get(other)).toEqual(other);
    for (const promise of written) await expect(promise).rejects.toThrow('ENOSPC');
    expect(await table.get(key)).toEqual({ ...key, n: 1 });
    expect((await table.query({ pk: 'p' })).items).toEqual([{ ...key, n: 1 }]);
    rmSync(`${path}.journal-2`);
    await table.put({ ...key, n: 3 });
    expect((await table.query({ pk: 'p' })).items).toEqual([{ ...key, n: 3 }]);
    await database.close();
  });

  test('keeps three tables in one file that only its owner may read', async () => {
    const clock = new ManualClock();
    const database = openDatabase(path);
    const names = ['main', 'runs', 'counters'] as const;
    for (const name of names) await new SqliteTable(database, name, clock).put({ pk: 'p', sk: name });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    await database.close();
    // This one file is sufficient as a backup.
    expect(readdirSync(dirname(path)).sort()).toEqual(['platform.db', 'platform.db.lock']);
    const again = openDatabase(path);
    for (const name of names) {
      expect((await new SqliteTable(again, name, clock).query({ pk: 'p' })).items).toEqual([{ pk: 'p', sk: name }]);
    }
    await again.close();
  });

  test('refuses a second process, by name of the first, until that one ends', async () => {
    const holder = await holdInChild(path);
    expect(() => openDatabase(path)).toThrow(expect.objectContaining({ code: 'DATABASE_IN_USE' }));
    expect(() => openDatabase(path)).toThrow(`pid ${holder.pid}`);
    holder.kill('SIGKILL');
    await once(holder, 'exit');
    const database = openDatabase(path);
    expect(readFileSync(`${path}.pid`, 'utf8')).toBe(`${process.pid}\n`);
    // The writes of the killed process were recovered.
    const table = new SqliteTable(database, 'main', new ManualClock());
    expect(await table.get({ pk: 'p', sk: 's' })).toEqual({ pk: 'p', sk: 's', n: 1 });
    await database.close();
  });

  test('refuses to open twice in one process', async () => {
    const database = openDatabase(path);
    expect(() => openDatabase(path)).toThrow(expect.objectContaining({ code: 'DATABASE_IN_USE' }));
    await database.close();
    await openDatabase(path).close();
  });
});

/** Starts a process that opens the database, writes one item and stays. */
async function holdInChild(path: string) {
  const module = (name: string) => JSON.stringify(new URL(name, import.meta.url).href);
  const script = `
    const { openDatabase } = await import(${module('./database.ts')});
    const { SqliteTable } = await import(${module('./sqlite-table.ts')});
    const table = new SqliteTable(openDatabase(${JSON.stringify(path)}), 'main', { now: () => 0 });
    await table.put({ pk: 'p', sk: 's', n: 1 });
    console.log('held');
    setInterval(() => {}, 1000);
  `;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  return child;
}
