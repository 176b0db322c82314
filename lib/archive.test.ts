import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '#test/helpers/temporary-folder.ts';
import { readArchive, writeArchive } from './archive.ts';

test('an archive gives the same files back, and holds each content once', () => {
  const root = temporaryFolder('archive-');
  const content = Buffer.from(Array.from({ length: 100_000 }, (_, index) => (index * 7919) % 251));
  for (const name of ['a/one', 'a/two/deep', 'b']) mkdirSync(join(root, name), { recursive: true });
  for (const path of ['a/one/same', 'a/two/deep/same', 'b/same']) writeFileSync(join(root, path), content);
  writeFileSync(join(root, 'a/empty'), '');
  writeFileSync(join(root, 'b/ä.txt'), 'text');
  const file = join(root, 'archive');
  writeArchive(file, root, ['a', 'b']);
  expect(statSync(file).size).toBeLessThan(content.length);

  const folder = readArchive(file);
  expect(readdirSync(folder).sort()).toEqual(['a', 'b']);
  for (const path of ['a/one/same', 'a/two/deep/same', 'b/same', 'a/empty', 'b/ä.txt']) {
    expect(readFileSync(join(folder, path))).toEqual(readFileSync(join(root, path)));
  }
});
