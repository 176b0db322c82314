import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { packedFiles } from '#cli/packed-files.ts';
import { exampleFiles, type FileContent, galleryOf } from '#client/gallery.ts';

const MAX_BYTES = 100_000;

const files = packedFiles();
const gallery = galleryOf(files);
const readme = readFileSync(join(import.meta.dirname, '../../examples/README.md'), 'utf8');
const bytesOf = (content: FileContent): number =>
  typeof content === 'string' ? Buffer.byteLength(content) : Buffer.byteLength(content.base64, 'base64');

test('the README has a row for each example, and no other', () => {
  const rows = [...readme.matchAll(/^\| \[([a-z0-9-]+)\]\(\1\/README\.md\)/gm)].map((match) => match[1]!);
  expect(rows.sort()).toEqual(gallery.map(({ name }) => name));
});

test('the README names the examples that need the key of a model provider', () => {
  const sentence = /^([a-z0-9, -]+) call a language model\./m.exec(readme)![1]!;
  const asking = gallery.filter(({ needs_model_key }) => needs_model_key).map(({ name }) => name);
  expect(sentence.split(/, | and /).sort()).toEqual(asking);
});

test('there are 15 examples or more', () => expect(gallery.length).toBeGreaterThanOrEqual(15));

describe.each(gallery)('$name', ({ name }) => {
  const own = exampleFiles(files, name);

  test(`is smaller than ${MAX_BYTES} bytes`, () => {
    const sizes = Object.values(own).map(bytesOf);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(MAX_BYTES);
  });

  test('has a README', () => expect(own['README.md']).toContain(`# ${name}\n`));
});
