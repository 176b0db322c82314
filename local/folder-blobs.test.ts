import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
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
});
