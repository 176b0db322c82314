import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { expect, onTestFinished, test } from 'vitest';
import { sourceStack } from './source-stack.ts';

const SOURCE = `
interface Unused { a: string }
export function failing(): never {
  throw new Error('on line 4');
}
`;

async function failure(sourcemap: boolean): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'source-stack-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'failing.ts'), SOURCE);
  const outfile = join(folder, 'failing.cjs');
  await build({ entryPoints: [join(folder, 'failing.ts')], outfile, minify: true, sourcemap, format: 'esm' });
  // Derived from the text instead of importing the file: the test runner would map the stack itself.
  const column = readFileSync(outfile, 'utf8').indexOf('new Error') + 1;
  return `Error: on line 4\n    at failing (${pathToFileURL(outfile)}:1:${column})\n    at node:internal/process:1:1`;
}

test('a stack names the places of the source', async () => {
  const stack = sourceStack(await failure(true));
  expect(stack).toMatch(/^Error: on line 4\n {4}at failing \(failing\.ts:4:\d+\)\n {4}at node:internal\/process:1:1$/);
});

test('a stack without a map stays as it is', async () => {
  const stack = await failure(false);
  expect(sourceStack(stack)).toBe(stack);
});
