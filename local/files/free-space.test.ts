import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { FreeSpace } from './free-space.ts';

const GB = 1024 ** 3;

function setUp(size: number, minFreeBytes?: number) {
  const disk = { free: size, inodes: 1000, freeInodes: 1000, asked: 0 };
  const clock = new ManualClock();
  const lines: string[] = [];
  const space = new FreeSpace({
    folder: '/data',
    minFreeBytes,
    clock,
    log: { warn: (message) => void lines.push(message) },
    async statfs(folder) {
      expect(folder).toBe('/data');
      disk.asked += 1;
      return { bsize: 4096, blocks: size / 4096, bavail: disk.free / 4096, files: disk.inodes, ffree: disk.freeInodes };
    },
  });
  const after = (ms: number) => {
    clock.advance(ms);
    return space.problem();
  };
  return { disk, lines, space, after };
}

test('there is a problem while less is free than the setting, or than a gigabyte and a fiftieth, but never a tenth', async () => {
  for (const [size, given, least] of [
    [100 * GB, undefined, 2 * GB],
    [20 * GB, undefined, GB],
    [4 * GB, undefined, 0.4 * GB],
    [100 * GB, 10 * GB, 10 * GB],
  ] as const) {
    const { disk, after } = setUp(size, given);
    disk.free = least + 2 ** 20;
    expect(await after(1000)).toBeUndefined();
    disk.free = least - 2 ** 20;
    expect(await after(1000)).toMatch(
      /nearly full: \d+ MB are free, and \d+ MB must stay free\. .* the operator .*PLATFORM_MIN_FREE_MB/,
    );
    disk.free = least + 2 ** 20;
    expect(await after(1000)).toBeUndefined();
  }
  const never = setUp(100 * GB, 0);
  never.disk.free = 0;
  expect(await never.after(1000)).toBeUndefined();
});

test('files without room for their entries are a problem as well; a file system without such a number is not', async () => {
  const { disk, after } = setUp(100 * GB);
  disk.freeInodes = 19;
  expect(await after(1000)).toContain('19 of 1000 inodes are free');
  disk.inodes = disk.freeInodes = 0;
  expect(await after(1000)).toBeUndefined();
});

test('the file system is asked at most once a second, by any number of requests', async () => {
  const { disk, space, after } = setUp(100 * GB);
  await Promise.all(Array.from({ length: 100 }, () => space.problem()));
  await after(999);
  expect(disk.asked).toBe(1);
  await after(1);
  expect(disk.asked).toBe(2);
});

test('one line a minute says so', async () => {
  const { disk, lines, after } = setUp(100 * GB);
  disk.free = GB;
  for (let second = 0; second < 150; second++) await after(1000);
  expect(lines).toEqual(Array(3).fill('the disk is nearly full'));
});

test('a file system that cannot be asked is no reason to refuse requests', async () => {
  const space = new FreeSpace({ folder: '/nowhere/at/all', clock: new ManualClock(), log: { warn() {} } });
  expect(await space.problem()).toBeUndefined();
});

/** Prints the free-space problem of a real 8 MB file system: empty, nearly full, and after space was freed. */
const PROGRAM = `
  import { rmSync, writeFileSync } from 'node:fs';
  import { FreeSpace } from '#local/files/free-space.ts';
  let now = 0;
  const space = new FreeSpace({ folder: process.argv[1], clock: { now: () => now }, log: { warn() {} } });
  const show = async () => console.log(JSON.stringify((await space.problem()) ?? null), (now += 1000));
  await show();
  writeFileSync(process.argv[1] + '/big', Buffer.alloc(7.5 * 2 ** 20));
  await show();
  rmSync(process.argv[1] + '/big');
  await show();
`;
const inNamespace = (script: string, ...args: string[]) =>
  spawnSync('unshare', ['-rm', 'sh', '-c', `mount -t tmpfs -o size=8m none /mnt && ${script}`, 'sh', ...args], {
    encoding: 'utf8',
  });

test.skipIf(inNamespace('true').status !== 0)('a real file system fills, and has room again', () => {
  const { stdout, stderr } = inNamespace('exec "$1" --input-type=module -e "$2" /mnt', process.execPath, PROGRAM);
  expect(stderr).toBe('');
  expect(stdout.split('\n')).toEqual(['null 1000', expect.stringContaining('nearly full'), 'null 3000', '']);
});
