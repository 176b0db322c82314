import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { DATA_VERSION } from '#core/base/data-versions.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { copyBefore, MIGRATIONS, type Migration, versionOf } from './data-version.ts';
import { openDatabase } from './database.ts';
import { SqliteTable } from './sqlite-table.ts';

const ITEM = { pk: 'p', sk: 's', n: 1 };
const NEXT: Migration = {
  version: DATA_VERSION + 1,
  sql: "UPDATE main SET item = json_set(item, '$.migrated', json('true'))",
};

let folder: string;
let path: string;
const warnings: string[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'data-version-'));
  path = join(folder, 'platform.sqlite');
  warnings.length = 0;
});
afterEach(() => rmSync(folder, { recursive: true }));

const open = (migrations?: readonly Migration[]) => openDatabase(path, (line) => warnings.push(line), migrations);
async function read(migrations?: readonly Migration[]) {
  const database = open(migrations);
  try {
    return await new SqliteTable(database, 'main', new ManualClock()).get(ITEM);
  } finally {
    await database.close();
  }
}
async function write(item = ITEM) {
  const database = open();
  await new SqliteTable(database, 'main', new ManualClock()).put(item);
  await database.close();
}
function storedVersion(file = path): number {
  const db = new DatabaseSync(file, { readOnly: true });
  try {
    return versionOf(db);
  } finally {
    db.close();
  }
}

test('migrations are numbered from 1 without gaps', () => {
  expect(MIGRATIONS.map(({ version }) => version)).toEqual(MIGRATIONS.map((_, index) => index + 1));
});

test('new data has the newest version, and no copy', async () => {
  await write();
  expect(readdirSync(folder).sort()).toEqual(['platform.sqlite', 'platform.sqlite.lock']);
  expect(storedVersion()).toBe(DATA_VERSION);
});

test('data from before there were versions is numbered, and what its journal holds is kept', async () => {
  const child = spawnScript(`
    const database = openDatabase(path);
    await new SqliteTable(database, 'main', { now: () => 0 }).put(${JSON.stringify(ITEM)});
    process.kill(process.pid, 'SIGKILL');
  `);
  await once(child, 'exit');
  expect(readdirSync(folder)).toContain('platform.sqlite.journal-1');
  const db = new DatabaseSync(path);
  db.exec('PRAGMA user_version = 0');
  db.close();
  expect(await read()).toEqual(ITEM);
  expect(storedVersion()).toBe(DATA_VERSION);
});

test('older data is copied, then migrated, once', async () => {
  await write();
  expect(await read([...MIGRATIONS, NEXT])).toEqual({ ...ITEM, migrated: true });
  const copy = copyBefore(path, DATA_VERSION);
  expect(warnings.join()).toContain(copy);
  expect(storedVersion(copy)).toBe(DATA_VERSION);
  expect(statSync(copy).mode & 0o777).toBe(0o600);
  rmSync(copy);
  expect(await read([...MIGRATIONS, NEXT])).toEqual({ ...ITEM, migrated: true });
  expect(existsSync(copy)).toBe(false);
});

test('newer data is refused, with what to do, and stays as it is', async () => {
  await write();
  await read([...MIGRATIONS, NEXT]);
  expect(() => open()).toThrow(expect.objectContaining({ code: 'DATA_VERSION' }));
  expect(() => open()).toThrow(
    `version ${NEXT.version}, but this platform supports only versions up to ${DATA_VERSION}`,
  );
  expect(storedVersion()).toBe(NEXT.version);
  // The failed attempt released the lock.
  expect(await read([...MIGRATIONS, NEXT])).toMatchObject({ migrated: true });
});

test('a migration that fails changes nothing', async () => {
  await write();
  const failing = [...MIGRATIONS, { ...NEXT, sql: `${NEXT.sql}; INSERT INTO nothing VALUES (1)` }];
  expect(() => open(failing)).toThrow('nothing');
  expect(await read()).toEqual(ITEM);
});

test('a process that is killed in the middle of a migration leaves the old data', async () => {
  await write();
  const endless = `${NEXT.sql};
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
    INSERT INTO main (pk, sk, item) SELECT 'n', i, hex(randomblob(2000)) FROM n`;
  const child = spawnScript(
    `openDatabase(path, () => {}, [...MIGRATIONS, ${JSON.stringify({ ...NEXT, sql: endless })}]);`,
  );
  // The page cache is full, so SQLite is writing the transaction.
  const written = () => statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  await expect.poll(written, { interval: 5 }).toBeGreaterThan(1_000_000);
  child.kill('SIGKILL');
  await once(child, 'exit');
  expect(storedVersion(copyBefore(path, DATA_VERSION))).toBe(DATA_VERSION);
  expect(await read()).toEqual(ITEM);
  expect(storedVersion()).toBe(DATA_VERSION);
  expect(await read([...MIGRATIONS, NEXT])).toEqual({ ...ITEM, migrated: true });
});

function spawnScript(script: string) {
  const url = (name: string) => JSON.stringify(new URL(name, import.meta.url).href);
  const text = `
    const { openDatabase } = await import(${url('./database.ts')});
    const { SqliteTable } = await import(${url('./sqlite-table.ts')});
    const { MIGRATIONS } = await import(${url('./data-version.ts')});
    const path = ${JSON.stringify(path)};
    ${script}
  `;
  return spawn(process.execPath, ['--input-type=module', '-e', text], { stdio: ['ignore', 'inherit', 'inherit'] });
}
