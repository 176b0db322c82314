import { mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { deleteExpiredBlobs } from '#core/api/sweeps.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { blobsConformance } from '#test/conformance/blobs.ts';
import { FolderBlobs } from './folder-blobs.ts';

describe('FolderBlobs', () => {
  const root = mkdtempSync(join(tmpdir(), 'blobs-'));
  afterAll(() => rmSync(root, { recursive: true }));

  blobsConformance(async () => new FolderBlobs(join(root, 'blobs')));

  test('leaves neither temporary files nor empty folders', async () => {
    const folder = join(root, 'tidy');
    const blobs = new FolderBlobs(folder);
    await blobs.put('a/b/c', new Uint8Array(1));
    await blobs.delete('a/b/c');
    expect(readdirSync(folder, { recursive: true })).toEqual(['+tmp']);
    writeFileSync(join(folder, '+tmp', 'left by a crash'), 'x');
    new FolderBlobs(folder);
    expect(readdirSync(folder)).toEqual([]);
  });

  test('puts a blob whose folders are removed again and again, as neighbours are deleted', async () => {
    const blobs = new FolderBlobs(join(root, 'contended'));
    const putAndDelete = async (key: string) => {
      for (let round = 0; round < 200; round++) {
        await blobs.put(key, new Uint8Array(1));
        await blobs.delete(key);
      }
    };
    await Promise.all(['a/b/1', 'a/b/2', 'a/b/3', 'a/c/4'].map(putAndDelete));
    expect(await Array.fromAsync(blobs.list(''))).toEqual([]);
  });

  test('bodies of runs, kept answers and uploads are deleted when their records have expired, and nothing else', async () => {
    const folder = join(root, 'aged');
    const blobs = new FolderBlobs(folder);
    const clock = new SystemClock();
    const aged: [key: string, days: number][] = [
      ['runs/w1/r1.json', 8],
      ['runs/w1/r1.answer.json', 8],
      ['runs/w1/r2.json', 6],
      ['runs/w2/r3.json', 8],
      ['uploads/w1/call/u1', 2],
      ['uploads/w1/call/u2', 0.5],
      ['bundles/b1.zip', 400],
      ['storage/w1/d1', 400],
    ];
    for (const [key, days] of aged) {
      await blobs.put(key, new Uint8Array(1));
      const then = new Date(clock.now() - days * 86_400_000);
      utimesSync(join(folder, key.replaceAll('/', '+/')), then, then);
    }
    await deleteExpiredBlobs({ blobs, clock, config: { runRetentionDays: 7 } });
    expect(await Array.fromAsync(blobs.list(''))).toEqual([
      'bundles/b1.zip',
      'runs/w1/r2.json',
      'storage/w1/d1',
      'uploads/w1/call/u2',
    ]);
    expect(readdirSync(join(folder, 'runs+'))).toEqual(['w1+']);
  });
});
