import { expect, test } from 'vitest';
import { zip } from '#test/helpers/zip.ts';
import { inspectBundle } from './bundle.ts';

const MB = 1024 * 1024;

test('250 MB are accepted, as are 10,000 files', async () => {
  const content = Buffer.alloc(250 * MB);
  expect(await inspectBundle(zip([{ name: 'zeros', content }]))).toMatchObject({ totalBytes: 250 * MB });
  const files = Array.from({ length: 10_000 }, (_, index) => ({ name: `d/${index}`, content: String(index) }));
  expect((await inspectBundle(zip(files))).files).toHaveLength(10_000);
});
