import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { hash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { DATA_VERSION } from '#core/base/data-versions.ts';
import { queryAll } from '#core/ports/table.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { type Database, openDatabase } from '../database/database.ts';
import { SqliteTable } from '../database/sqlite-table.ts';
import { FileVault } from '../files/file-vault.ts';
import { FolderBlobs } from '../files/folder-blobs.ts';
import { type Backup, lastBackup, writeBackup } from './backup.ts';
import { encodeManifest, MANIFEST } from './format.ts';
import { RESTORING, restoreBackup, verifyBackup } from './restore.ts';
import { ARCHIVE_END, fileHeader, padding, readTar } from './tar.ts';

const WORKSPACE = '0a0a0a0a-0000-4000-8000-000000000001';
const LONG = `${'a-long-segment-of-a-key/'.repeat(8)}end`;
const ITEM = { pk: 'p', sk: 's', n: 1 };

let folder: string;
let dataFolder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'backup-'));
  dataFolder = join(folder, 'data');
  file = join(folder, 'platform.tar.gz');
});
afterEach(() => rmSync(folder, { recursive: true }));

const keyOf = (data: string): string => join(data, 'vault.key');
const tableOf = (database: Database) => new SqliteTable(database, 'main', new ManualClock());
const save = (withKey = false): Promise<Backup> =>
  writeBackup({ dataFolder, keyFile: keyOf(dataFolder), file, withKey, version: '0.1.0' });
const restoreTo = (name: string) => {
  const restored = join(folder, name);
  return restoreBackup({ file, dataFolder: restored, keyFile: keyOf(restored) });
};

/** Makes records, blobs and secrets of every kind. The platform runs until `close`. */
async function makeData(): Promise<Database> {
  const database = openDatabase(join(dataFolder, 'platform.sqlite'));
  await tableOf(database).put(ITEM);
  const blobs = new FolderBlobs(join(dataFolder, 'blobs'));
  await blobs.put('bundles/b1', Buffer.alloc(100_000, 'b'));
  await blobs.put(LONG, Buffer.from('long'));
  await blobs.put('empty', Buffer.alloc(0));
  await new FileVault(join(dataFolder, 'vault'), keyOf(dataFolder)).write(WORKSPACE, 'KEY', 'made-up-value');
  return database;
}

async function itemOf(data: string) {
  const database = openDatabase(join(data, 'platform.sqlite'));
  try {
    return await tableOf(database).get(ITEM);
  } finally {
    await database.close();
  }
}

describe('a backup', () => {
  test('of a running platform has what was answered, and what is in no file but the journal', async () => {
    const database = await makeData();
    const made = await save();
    expect(made).toMatchObject({ file, files: 5, data_version: DATA_VERSION, has_secrets: true, has_key: false });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(await lastBackup(dataFolder)).toEqual(made);
    await database.close();

    const restored = join(folder, 'restored');
    await restoreTo('restored');
    expect(readdirSync(restored).sort()).toEqual(['blobs', 'platform.sqlite', 'vault']);
    expect(await itemOf(restored)).toEqual(ITEM);
    const blobs = new FolderBlobs(join(restored, 'blobs'));
    expect(Buffer.from((await blobs.get('bundles/b1'))!)).toEqual(Buffer.alloc(100_000, 'b'));
    expect(Buffer.from((await blobs.get(LONG))!).toString()).toBe('long');
    expect(await blobs.size('empty')).toBe(0);
    expect(statSync(join(restored, 'platform.sqlite')).mode & 0o777).toBe(0o600);
  });

  test('is an archive that tar reads', async () => {
    await (await makeData()).close();
    await save();
    const listed = execFileSync('tar', ['-tzf', file], { encoding: 'utf8' }).trim().split('\n');
    expect(listed).toContain('platform.sqlite');
    expect(listed.some((name) => name.length > 200 && name.endsWith('end'))).toBe(true);
    expect(listed.at(-1)).toBe(MANIFEST);
  });

  test('has the key of the secrets only if asked for; without it they stay closed', async () => {
    await (await makeData()).close();
    await save();
    await restoreTo('without');
    const read = (data: string) => new FileVault(join(data, 'vault'), keyOf(data)).read(WORKSPACE, ['KEY']);
    await expect(read(join(folder, 'without'))).rejects.toMatchObject({ code: 'VAULT_KEY' });
    expect(await save(true)).toMatchObject({ has_key: true });
    await restoreTo('with');
    expect(await read(join(folder, 'with'))).toEqual({ KEY: 'made-up-value' });
    // A backup must fail rather than omit the key that the caller asked for.
    rmSync(keyOf(dataFolder));
    await expect(save(true)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  test('has the key of data keys, also without secrets', async () => {
    await openDatabase(join(dataFolder, 'platform.sqlite')).close();
    expect(await save(true)).toMatchObject({ has_secrets: false, has_key: false });
    const vaultOf = (data: string) => new FileVault(join(data, 'vault'), keyOf(data));
    const { key, sealed } = await vaultOf(dataFolder).newDataKey(WORKSPACE);
    expect(await save(true)).toMatchObject({ has_secrets: false, has_key: true });
    await restoreTo('restored');
    expect(Buffer.from(await vaultOf(join(folder, 'restored')).openDataKey(WORKSPACE, sealed))).toEqual(key);
  });

  test('is of one moment, while a process writes all the time', { timeout: 60_000 }, async () => {
    const writer = spawnWriter();
    await once(writer.stdout!, 'data');
    for (let round = 0; round < 3; round += 1) {
      await save();
      await restoreTo(`restored-${round}`);
      const database = openDatabase(join(folder, `restored-${round}`, 'platform.sqlite'));
      const items = await Array.fromAsync(queryAll(tableOf(database), { pk: 'pairs' }));
      await database.close();
      // Each transaction writes two items with the next number of their lane.
      const numbers = items.map(({ sk, n }) => [String(sk), n] as const);
      const of = new Map(numbers);
      expect(of.size).toBe(16);
      for (const [sk, n] of numbers) expect(of.get(`${sk.slice(0, -1)}a`), sk).toBe(n);
    }
    await end(writer);
  });

  test('that is interrupted leaves the archive of before, and the next one clears up', async () => {
    await (await makeData()).close();
    await save();
    const before = readFileSync(file);
    const blobs = new FolderBlobs(join(dataFolder, 'blobs'));
    await blobs.put('random', randomBytes(16_000_000));
    const child = spawnScript(`
      const { writeBackup } = await import(${url('./backup.ts')});
      await writeBackup(${JSON.stringify({ dataFolder, keyFile: keyOf(dataFolder), file, withKey: false, version: '1' })});
    `);
    const partial = () => readdirSync(folder).find((name) => name.includes('.partial-'));
    await expect.poll(partial, { interval: 1 }).toBeDefined();
    await end(child);
    expect(readFileSync(file)).toEqual(before);
    expect(await verifyBackup(file)).toMatchObject({ files: 5 });
    expect(await save()).toMatchObject({ files: 6 });
    expect(partial()).toBeUndefined();
  });

  test('follows no link that lies in the data', async () => {
    await (await makeData()).close();
    writeFileSync(join(folder, 'outside'), 'outside');
    symlinkSync(join(folder, 'outside'), join(dataFolder, 'blobs/linked'));
    symlinkSync(folder, join(dataFolder, 'blobs/linked+'));
    await save();
    expect(await pathsOf(file)).not.toContain('blobs/linked');
    expect((await pathsOf(file)).filter((path) => path.includes('outside'))).toEqual([]);
  });

  test('of a damaged database is refused', async () => {
    await (await makeData()).close();
    const bytes = readFileSync(join(dataFolder, 'platform.sqlite'));
    bytes.fill(0xff, 4096, 3 * 4096);
    writeFileSync(join(dataFolder, 'platform.sqlite'), bytes);
    await expect(save()).rejects.toThrow(/damaged|malformed/);
    expect(existsSync(file)).toBe(false);
  });

  test.skipIf(!hasTmpfs())('on a full disk ends with an error, and leaves the archive of before', async () => {
    await (await makeData()).close();
    await new FolderBlobs(join(dataFolder, 'blobs')).put('big', crypto.getRandomValues(new Uint8Array(60_000)));
    await new FolderBlobs(join(dataFolder, 'blobs')).put('big2', crypto.getRandomValues(new Uint8Array(60_000)));
    const small = join(folder, 'small');
    mkdirSync(small);
    const order = {
      dataFolder,
      keyFile: keyOf(dataFolder),
      file: join(small, 'b.tar.gz'),
      withKey: false,
      version: '1',
    };
    const ended = onTmpfs(
      small,
      64,
      `
      const { writeBackup } = await import(${url('./backup.ts')});
      const { readdirSync, writeFileSync } = await import('node:fs');
      writeFileSync(${JSON.stringify(order.file)}, 'before');
      const error = await writeBackup(${JSON.stringify(order)}).catch((error) => error);
      console.log(JSON.stringify({ code: error.code, left: readdirSync(${JSON.stringify(small)}) }));
    `,
    );
    expect(ended).toEqual({ code: 'ENOSPC', left: ['b.tar.gz'] });
  });
});

describe('a restore', () => {
  beforeEach(async () => {
    await (await makeData()).close();
    await save();
  });

  test('replaces nothing', async () => {
    const taken = join(folder, 'taken');
    mkdirSync(taken);
    writeFileSync(join(taken, 'notes.txt'), 'mine');
    await expect(restoreTo('taken')).rejects.toThrow('not empty');
    await expect(restoreTo('data')).rejects.toThrow('not empty');
    expect(readdirSync(taken)).toEqual(['notes.txt']);
    writeFileSync(join(folder, 'no-folder'), '');
    await expect(restoreTo('no-folder')).rejects.toThrow('not a folder');
  });

  test('that was interrupted begins again', async () => {
    const half = join(folder, 'half');
    mkdirSync(join(half, RESTORING, 'blobs'), { recursive: true });
    mkdirSync(join(half, 'blobs'));
    writeFileSync(join(half, 'blobs/left'), 'over');
    await restoreTo('half');
    expect(readdirSync(half).sort()).toEqual(['blobs', 'platform.sqlite', 'vault']);
    expect(readdirSync(join(half, 'blobs'))).not.toContain('left');
    // The folder also holds a file that no restore wrote.
    const other = join(folder, 'other');
    cpSync(join(half, 'blobs'), join(other, 'blobs'), { recursive: true });
    mkdirSync(join(other, RESTORING));
    writeFileSync(join(other, 'notes.txt'), 'mine');
    await expect(restoreTo('other')).rejects.toThrow('not empty');
    expect(readdirSync(other)).toContain('notes.txt');
  });

  test.each<[name: string, change: (archive: Buffer) => Buffer, words: string]>([
    ['no archive', () => Buffer.from('hello, world'), 'damaged or incomplete'],
    ['an empty file', () => Buffer.alloc(0), 'incomplete'],
    ['cut short', (all) => all.subarray(0, all.length - 40), 'incomplete'],
    ['cut in the middle', (all) => all.subarray(0, all.length / 2), 'incomplete'],
    ['a byte changed', (all) => repacked(all, 700), 'checksum'],
    ['a header changed', (all) => repacked(all, 3), 'checksum'],
    [
      'compressed bytes changed',
      (all) => Buffer.concat([all.subarray(0, 60), Buffer.alloc(40), all.subarray(100)]),
      'damaged',
    ],
    [
      'more behind its end',
      (all) => gzipSync(Buffer.concat([gunzipSync(all), Buffer.alloc(512, 'x')])),
      'after its end',
    ],
    ['random bytes', () => Buffer.from(crypto.getRandomValues(new Uint8Array(5000))), 'damaged'],
    ['compressed noise', () => gzipSync(crypto.getRandomValues(new Uint8Array(5000))), 'damaged'],
  ])('refuses an archive with %s, and touches nothing', async (_, change, words) => {
    writeFileSync(file, change(readFileSync(file)));
    await expect(verifyBackup(file)).rejects.toMatchObject({
      code: 'ARCHIVE',
      message: expect.stringContaining(words),
    });
    await expect(restoreTo('restored')).rejects.toMatchObject({ code: 'ARCHIVE' });
    expect(existsSync(join(folder, 'restored'))).toBe(false);
  });

  test.each([
    '../outside',
    'blobs/../../outside',
    'blobs/./a',
    'blobs//a',
    'blobs',
    '/etc/passwd',
    'vault/a/b',
    'vault.key/a',
    'blobs/a\\b',
    'blobs/a\u0007b',
    'platform.sqlite-wal',
    'platform.sqlite.journal-1',
    '.restoring/a',
  ])('refuses an archive with the path %j', async (path) => {
    writeArchive([
      [path, 'hostile'],
      ['platform.sqlite', readFileSync(join(dataFolder, 'platform.sqlite'))],
    ]);
    await expect(restoreTo('restored')).rejects.toMatchObject({ code: 'ARCHIVE' });
    expect(readdirSync(folder).sort()).toEqual(['data', 'platform.tar.gz']);
  });

  test.each([
    ['symbolic link', '2'],
    ['hard link', '1'],
    ['device', '3'],
    ['folder', '5'],
  ])('refuses an archive with a %s', async (_, type) => {
    const header = fileHeader('blobs/linked', 0);
    header.write(type, 156);
    header.write('/etc', 157);
    header.write('        ', 148);
    const sum = header.reduce((total, byte) => total + byte, 0);
    header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
    writeFileSync(file, gzipSync(Buffer.concat([header, gunzipSync(readFileSync(file))])));
    await expect(restoreTo('restored')).rejects.toThrow('not a regular file');
    expect(existsSync(join(folder, 'restored'))).toBe(false);
  });

  test('refuses the same path twice, and leaves nothing', async () => {
    const sqlite = readFileSync(join(dataFolder, 'platform.sqlite'));
    writeArchive([
      ['platform.sqlite', sqlite],
      ['blobs/a', 'one'],
      ['blobs/a', 'two'],
    ]);
    await expect(restoreTo('restored')).rejects.toMatchObject({ code: 'EEXIST' });
    expect(readdirSync(join(folder, 'restored'))).toEqual([]);
    writeArchive([['platform.sqlite', 'no database at all']]);
    await expect(restoreTo('restored')).rejects.toThrow('damaged database');
    expect(readdirSync(join(folder, 'restored'))).toEqual([]);
  });

  test('refuses what a newer platform made, and what has no data', async () => {
    const sqlite = readFileSync(join(dataFolder, 'platform.sqlite'));
    writeArchive([['platform.sqlite', sqlite]], { data_version: DATA_VERSION + 1 });
    await expect(restoreTo('restored')).rejects.toMatchObject({ code: 'DATA_VERSION' });
    writeArchive([['platform.sqlite', sqlite]], { format: 2 });
    await expect(restoreTo('restored')).rejects.toThrow('newer platform');
    writeArchive([['blobs/a', 'a']]);
    await expect(restoreTo('restored')).rejects.toThrow('not a complete platform backup');
    writeArchive([['platform.sqlite', sqlite]], { files: 'many' });
    await expect(restoreTo('restored')).rejects.toThrow('files');
    expect(existsSync(join(folder, 'restored'))).toBe(false);
  });

  test('puts the key where the platform looks for it, and replaces no other', async () => {
    await save(true);
    const restored = join(folder, 'restored');
    const keyFile = join(folder, 'keys/vault.key');
    await restoreBackup({ file, dataFolder: restored, keyFile });
    expect(readFileSync(keyFile)).toEqual(readFileSync(keyOf(dataFolder)));
    expect(lstatSync(keyFile).mode & 0o777).toBe(0o600);
    expect(existsSync(keyOf(restored))).toBe(false);
    await expect(restoreBackup({ file, dataFolder: join(folder, 'again'), keyFile })).rejects.toThrow(
      'move it away first',
    );
  });

  test.skipIf(!hasTmpfs())('on a full disk ends with an error, and leaves the folder empty', async () => {
    const blobs = new FolderBlobs(join(dataFolder, 'blobs'));
    for (let n = 0; n < 40; n += 1) await blobs.put(`small/${n}`, Buffer.alloc(1));
    await save();
    const small = join(folder, 'small');
    mkdirSync(small);
    const order = { file, dataFolder: small, keyFile: keyOf(small) };
    const restore = `
      const { restoreBackup } = await import(${url('./restore.ts')});
      const { readdirSync } = await import('node:fs');
      const error = await restoreBackup(${JSON.stringify(order)}).catch((error) => error);
      console.log(JSON.stringify({ message: error.message ?? 'restored', left: readdirSync(${JSON.stringify(small)}) }));
    `;
    expect(onTmpfs(small, 64, restore)).toEqual({
      message: expect.stringContaining('bytes free, but the backup needs'),
      left: [],
    });
    // The archive's bytes fit on the disk, but small files take more blocks than bytes.
    expect(onTmpfs(small, 280, restore)).toEqual({ message: expect.stringContaining('ENOSPC'), left: [] });
  });

  test.skipIf(process.getuid?.() !== 0)('by root leaves the files to the owner of the folder', async () => {
    const restored = join(folder, 'restored');
    mkdirSync(restored);
    execFileSync('chown', ['1234:1234', restored]);
    await restoreTo('restored');
    const owners = new Set(
      readdirSync(restored, { recursive: true }).map((name) => lstatSync(join(restored, String(name))).uid),
    );
    expect([...owners]).toEqual([1234]);
  });
});

async function pathsOf(archive: string): Promise<string[]> {
  const paths: string[] = [];
  const chunks = (async function* () {
    yield gunzipSync(readFileSync(archive));
  })();
  for await (const { path } of readTar(chunks)) paths.push(path);
  return paths;
}

/** Repacks the archive with one bit of the tar flipped. */
function repacked(archive: Buffer, at: number): Buffer {
  const tar = gunzipSync(archive);
  tar[at] = tar[at]! ^ 1;
  return gzipSync(tar);
}

/** Writes an archive whose manifest is correct except for `changed`. */
function writeArchive(
  files: readonly [path: string, body: string | Buffer][],
  changed: Record<string, unknown> = {},
): void {
  const parts = files.flatMap(([path, body]) => {
    const bytes = Buffer.from(body);
    return [fileHeader(path, bytes.length), bytes, padding(bytes.length)];
  });
  const before = Buffer.concat(parts);
  const manifest = JSON.parse(
    encodeManifest({
      platform: '0.1.0',
      data_version: DATA_VERSION,
      created_at: new Date().toISOString(),
      files: files.length,
      bytes: before.length,
      has_key: false,
      has_secrets: false,
      sha256: hash('sha256', before),
    }).toString(),
  );
  const text = Buffer.from(JSON.stringify({ ...manifest, ...changed }));
  writeFileSync(
    file,
    gzipSync(Buffer.concat([before, fileHeader(MANIFEST, text.length), text, padding(text.length), ARCHIVE_END])),
  );
}

const url = (name: string): string => JSON.stringify(new URL(name, import.meta.url).href);

function spawnScript(script: string): ChildProcess {
  return spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
}

/** Starts a process that writes pairs of items until it is killed. */
const spawnWriter = (): ChildProcess =>
  spawnScript(`
    const { openDatabase } = await import(${url('../database/database.ts')});
    const { SqliteTable } = await import(${url('../database/sqlite-table.ts')});
    const table = new SqliteTable(openDatabase(${JSON.stringify(join(dataFolder, 'platform.sqlite'))}), 'main', { now: () => 0 });
    const lane = async (name) => {
      for (let n = 1; ; n += 1) {
        const items = ['a', 'b'].map((half) => ({ pk: 'pairs', sk: name + half, n, filler: 'x'.repeat(n % 900) }));
        await table.transact(items.map((item) => ({ op: 'put', item })));
        if (n === 1) console.log('begun');
      }
    };
    for (let each = 0; each < 8; each += 1) void lane('lane' + each);
  `);

async function end(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL');
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}

/** Whether a process may mount its own file system. */
function hasTmpfs(): boolean {
  return spawnSync('unshare', ['-rm', 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0;
}

/** Runs a script with a file system of this size mounted at `path`. Returns the JSON that it prints. */
function onTmpfs(path: string, kilobytes: number, script: string): unknown {
  const line = 'mount -t tmpfs -o size="$1"k none "$2" && exec "$3" --input-type=module -e "$4"';
  const words = ['-rm', 'sh', '-c', line, 'sh', String(kilobytes), path, process.execPath, script];
  return JSON.parse(execFileSync('unshare', words, { encoding: 'utf8' }));
}
