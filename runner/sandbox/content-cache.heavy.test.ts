import { spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Space } from '#core/ports/space.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { tarOf } from '#test/conformance/sandbox.ts';
import { ContentCache } from './content-cache.ts';

// Each test starts processes that wait for one another.
vi.setConfig({ testTimeout: 60_000 });

const MB = 1024 ** 2;

const GOOD = 'layers/good.tar.gz';
const BAD = 'layers/bad.tar.gz';

/** Creates a cache on a host with a folder that no layer may access. */
async function setUp() {
  const root = mkdtempSync(join(tmpdir(), 'content-cache-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const blobs = new FolderBlobs(join(root, 'blobs'));
  const host = join(root, 'host');
  mkdirSync(host);
  const cache = await ContentCache.open(join(root, 'cache'), blobs);
  /** Stores the files that `make` writes into a folder as the layer BAD. */
  const pack = async (make: (folder: string) => void) => {
    const folder = mkdtempSync(join(root, 'layer-'));
    make(folder);
    await blobs.put(BAD, archiveOf(folder, readdirSync(folder)));
  };
  await blobs.put(GOOD, tarOf({ 'python/greeting.py': 'text = 1\n' }));
  return { root, host, blobs, cache, pack };
}

function archiveOf(folder: string, names: readonly string[], ...options: string[]): Buffer {
  const { status, stdout, stderr } = spawnSync('tar', ['-cz', ...options, '-C', folder, ...names], {
    maxBuffer: 64 * 1024 * 1024,
  });
  if (status !== 0) throw new Error(String(stderr));
  return stdout;
}

const write = (path: string, text = '') => {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
};

test('a layer is shown with its files, links, times and bits, readable for every user', async () => {
  const { cache, pack } = await setUp();
  const long = `${'deep/'.repeat(30)}${'n'.repeat(120)}.js`;
  await pack((folder) => {
    write(join(folder, 'python/six.py'), 'x = 1\n');
    chmodSync(join(folder, 'python/six.py'), 0o600);
    write(join(folder, 'python/bin/six'), '#!/bin/sh\n');
    chmodSync(join(folder, 'python/bin/six'), 0o6711);
    spawnSync('touch', ['-d', '2020-01-02T03:04:05Z', join(folder, 'python/six.py')]);
    write(join(folder, 'node_modules', long), 'long');
    mkdirSync(join(folder, 'node_modules/.bin'));
    symlinkSync(`../${long}`, join(folder, 'node_modules/.bin/long'));
    chmodSync(join(folder, 'python'), 0o700);
  });
  const { path } = await cache.layer(BAD);
  const mode = (name: string) => lstatSync(join(path, name)).mode & 0o7777;
  expect([mode('python'), mode('python/six.py'), mode('python/bin/six')]).toEqual([0o755, 0o644, 0o755]);
  expect(statSync(join(path, 'python/six.py')).mtime.toISOString()).toBe('2020-01-02T03:04:05.000Z');
  expect(readFileSync(join(path, 'node_modules/.bin/long'), 'utf8')).toBe('long');
  expect(readlinkSync(join(path, 'node_modules/agent-platform-sdk'))).toMatch(/^\/runtime\//);
});

test.for<[what: string, make: (folder: string, host: string) => void, message: string]>([
  ['folder of the platform', (folder, host) => symlinkSync(host, join(folder, 'node_modules')), 'node_modules'],
  [
    'folder below one',
    (folder, host) => {
      mkdirSync(join(folder, 'python'));
      symlinkSync(host, join(folder, 'python/up'));
    },
    'which leaves it',
  ],
  [
    'link that climbs out',
    (folder) => {
      mkdirSync(join(folder, 'python/a'), { recursive: true });
      symlinkSync('../../../x', join(folder, 'python/a/up'));
    },
    'which leaves it',
  ],
  [
    'link that climbs out through another link',
    (folder) => {
      mkdirSync(join(folder, 'python'));
      symlinkSync('.', join(folder, 'python/here'));
      symlinkSync('here/here/../../..', join(folder, 'python/up'));
    },
    'which leaves it',
  ],
  ['name of its own beside them', (folder) => write(join(folder, 'size')), 'size'],
  ['file in the place of a folder', (folder) => write(join(folder, 'node_modules')), 'node_modules'],
  [
    'folders without end',
    (folder) => mkdirSync(join(folder, 'python', ...Array(70).fill('d')), { recursive: true }),
    'deep',
  ],
  [
    'file of zeros that is compressed a thousandfold',
    (folder) => {
      write(join(folder, 'python/zeros'));
      truncateSync(join(folder, 'python/zeros'), 80 * 1024 ** 2);
    },
    'compressed',
  ],
] as const)(
  'a layer with a %s is refused, and nothing outside is touched',
  { timeout: 60_000 },
  async ([, make, message]) => {
    const { host, root, cache, pack } = await setUp();
    await pack((folder) => make(folder, host));
    await expect(cache.layer(BAD)).rejects.toMatchObject({
      code: 'SANDBOX_LAYER',
      message: expect.stringContaining(message),
    });
    expect(readdirSync(host)).toEqual([]);
    expect(readdirSync(join(root, 'cache/expanded'))).toEqual([]);
    expect(readdirSync(join(root, 'cache/tmp'))).toEqual([]);
    const good = await cache.layer(GOOD);
    expect(readdirSync(good.path).sort()).toEqual(['node_modules', 'python']);
  },
);

test('a layer that is not the one that was installed is refused', async () => {
  const { root, blobs, cache } = await setUp();
  const installed = tarOf({ 'python/greeting.py': 'text = 1\n' });
  const sha256 = createHash('sha256').update(installed).digest('hex');
  const swapped = tarOf({ 'python/greeting.py': 'text = 2\n' });
  await blobs.put(BAD, swapped);
  await expect(cache.layer(BAD, sha256)).rejects.toMatchObject({
    code: 'SANDBOX_LAYER',
    message: expect.stringContaining('changed since they were installed'),
  });
  expect(readdirSync(join(root, 'cache/expanded'))).toEqual([]);
  await blobs.put(BAD, installed);
  const { path } = await cache.layer(BAD, sha256);
  expect(readFileSync(join(path, 'python/greeting.py'), 'utf8')).toBe('text = 1\n');
});

test('members below a link, twice, or linked to the outside are refused', async () => {
  const { root, host, blobs, cache } = await setUp();
  const one = mkdtempSync(join(root, 'one-'));
  const two = mkdtempSync(join(root, 'two-'));
  mkdirSync(join(one, 'python'));
  symlinkSync('.', join(one, 'python/here'));
  write(join(two, 'python/here/file'));
  write(join(two, 'python/here/same'));
  const plain = (folder: string, ...names: string[]) =>
    spawnSync('tar', ['-c', '-C', folder, ...names], { maxBuffer: 1 << 24 }).stdout;
  const { gzipSync } = await import('node:zlib');
  const joined = (...tars: Buffer[]) =>
    gzipSync(Buffer.concat(tars.map((tar, at) => (at + 1 < tars.length ? withoutEnd(tar) : tar))));
  for (const [archive, message] of [
    [joined(plain(one, 'python'), plain(two, 'python/here/file')), 'below a link'],
    [joined(plain(two, 'python/here/file'), plain(two, 'python/here/file')), 'twice'],
    [gzipSync(memberOf({ type: '1', target: join(host, 'secret') })), 'leaves it'],
    [gzipSync(memberOf({ type: '0', size: 5 * 1024 ** 3 })), 'more than 4096 MB'],
    [sparse(root), 'not a plain file'],
    [gzipSync(memberOf({ type: '6' })), 'named pipe'],
    [gzipSync(memberOf({ type: '3' })), 'a device'],
    [gzipSync(plain(two, 'python')).subarray(0, 60), 'truncated'],
    [Buffer.from('no gzip at all'), 'truncated'],
  ] as const) {
    await blobs.put(BAD, archive);
    await expect(cache.layer(BAD)).rejects.toMatchObject({
      code: 'SANDBOX_LAYER',
      message: expect.stringContaining(message),
    });
  }
});

const withoutEnd = (tar: Buffer): Buffer => {
  let end = tar.length;
  while (end > 0 && tar.subarray(end - 512, end).every((byte) => byte === 0)) end -= 512;
  return tar.subarray(0, end);
};

/** Returns a tar with a single header. */
function memberOf({ type, target = '', size = 0 }: { type: string; target?: string; size?: number }): Buffer {
  const header = Buffer.alloc(512);
  header.write('python/member');
  header.write('0000644\0', 100);
  header.write(`${size.toString(8).padStart(11, '0')}\0`, 124);
  header.write('00000000000\0', 136);
  header.write(type, 156);
  header.write(target.slice(0, 100), 157);
  header.write('ustar  \0', 257);
  header.write('        ', 148);
  header.write(
    `${[...header]
      .reduce((sum, byte) => sum + byte, 0)
      .toString(8)
      .padStart(6, '0')}\0 `,
    148,
  );
  return Buffer.concat([header, Buffer.alloc(1024)]);
}

/** Returns an archive in which a sparse file of 3 GB takes one block. */
function sparse(root: string): Buffer {
  const folder = mkdtempSync(join(root, 'sparse-'));
  write(join(folder, 'python/bomb'));
  truncateSync(join(folder, 'python/bomb'), 3 * 1024 ** 3);
  return archiveOf(folder, ['python'], '--sparse');
}

test('an entry of the cache that cannot be read is no reason to refuse others', async () => {
  const { root, blobs, pack } = await setUp();
  await pack((folder) => write(join(folder, 'python/x.py')));
  symlinkSync(join(root, 'nowhere'), join(root, 'cache/expanded/dangling'));
  const cache = await ContentCache.open(join(root, 'cache'), blobs);
  await cache.layer(BAD);
});

/** Creates layers `layers/<name>.tar.gz` with one file of `megabytes` each, and a cache for `maxMegabytes`. */
async function setUpSizes(maxMegabytes: number, megabytes: Readonly<Record<string, number>>, space?: Space) {
  const { root, blobs } = await setUp();
  for (const [name, size] of Object.entries(megabytes)) {
    await blobs.put(
      `layers/${name}.tar.gz`,
      tarOf({ 'python/data': randomBytes((size * MB * 3) / 4).toString('base64') }),
    );
  }
  const options = { maxBytes: maxMegabytes * MB, space };
  const cache = await ContentCache.open(join(root, 'cache'), blobs, options);
  const open = (name: string, owner: string) => cache.layer(`layers/${name}.tar.gz`, undefined, owner);
  const diskBytes = () =>
    Number(spawnSync('du', ['-sb', join(root, 'cache')], { encoding: 'utf8' }).stdout.split('\t')[0]);
  const reopen = () => ContentCache.open(join(root, 'cache'), blobs, options);
  return { open, diskBytes, reopen };
}

test('many workspaces at once leave the cache within its bytes, and nothing goes that is in use', async () => {
  const names = ['a', 'b', 'c', 'd', 'e', 'f'];
  const { open, diskBytes } = await setUpSizes(3.5, Object.fromEntries(names.map((name) => [name, 1])));
  const use = async (turn: number) => {
    const { path, release } = await open(names[(turn * 7 + (turn % 5)) % names.length]!, `workspace ${turn % 3}`);
    for (let looks = 0; looks < 3; looks++) {
      expect(statSync(join(path, 'python/data')).size).toBe(MB);
      await new Promise(setImmediate);
    }
    release();
  };
  // Two at a time, so that there is always something to evict.
  const users = [0, 1].map(async (user) => {
    for (let turn = user; turn < 40; turn += 2) await use(turn);
  });
  await Promise.all(users);
  expect(diskBytes()).toBeLessThan(4 * MB);
});

test('what is in use may not fill the cache for others: the workspace that uses most of it is refused', async () => {
  const { open, diskBytes } = await setUpSizes(4.5, { a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1 });
  const held = await Promise.all(['a', 'b', 'c', 'd'].map((name) => open(name, 'greedy')));
  const refused = { code: 'RATE_LIMITED', message: expect.stringContaining('more than its share') };
  await expect(open('e', 'greedy')).rejects.toMatchObject(refused);
  const others = [await open('f', 'modest'), await open('g', 'another')];
  await expect(open('e', 'greedy')).rejects.toMatchObject(refused);
  // The layer is cached already.
  const again = await open('f', 'greedy');
  expect(diskBytes()).toBeLessThan(6.5 * MB);
  for (const { path } of [...held, ...others, again]) expect(statSync(join(path, 'python/data')).size).toBe(MB);
  for (const { release } of [...held, again]) release();
  const { path } = await open('e', 'greedy');
  expect(statSync(join(path, 'python/data')).size).toBe(MB);
  expect(diskBytes()).toBeLessThan(4.6 * MB);
});

test('who waits for the same content is not refused for another', async () => {
  const { open } = await setUpSizes(2.5, { a: 1, b: 1, c: 1 });
  await Promise.all([open('a', 'greedy'), open('b', 'greedy')]);
  const [first, second] = await Promise.all([open('c', 'greedy'), open('c', 'modest')]);
  expect(first.path).toBe(second.path);
});

test('while the disk is nearly full, nothing is unpacked and what nobody uses goes', async () => {
  let problem: string | undefined;
  const { open, diskBytes } = await setUpSizes(100, { a: 1, b: 1, c: 1 }, { problem: async () => problem });
  const used = await open('a', 'one');
  (await open('b', 'one')).release();
  problem = 'The disk is nearly full.';
  expect((await open('b', 'two')).path).toBeTruthy();
  await expect(open('c', 'two')).rejects.toMatchObject({ code: 'RATE_LIMITED', message: problem });
  expect(statSync(join(used.path, 'python/data')).size).toBe(MB);
  problem = undefined;
  (await open('b', 'two')).release();
  (await open('c', 'two')).release();
  expect(diskBytes()).toBeLessThan(3.1 * MB);
});

test('contents of an earlier process count, too', async () => {
  const { open, diskBytes, reopen } = await setUpSizes(2.5, { a: 1, b: 1, c: 1 });
  for (const name of ['a', 'b']) (await open(name, 'one')).release();
  const cache = await reopen();
  (await cache.layer('layers/c.tar.gz')).release();
  expect(diskBytes()).toBeLessThan(2.6 * MB);
});
