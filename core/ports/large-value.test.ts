import { expect, test } from 'vitest';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { getLarge, MAX_INLINE_BYTES, putIfLarge } from './large-value.ts';

test('text up to the limit is left to the item, and longer text goes to the blob', async () => {
  const deps = memoryDeps();
  expect(await putIfLarge(deps, 'values/small.json', 'x'.repeat(MAX_INLINE_BYTES))).toBe(false);
  expect(await getLarge(deps, 'values/small.json')).toBeUndefined();
  const long = 'x'.repeat(MAX_INLINE_BYTES + 1);
  expect(await putIfLarge(deps, 'values/large.json', long)).toBe(true);
  expect(await getLarge(deps, 'values/large.json')).toBe(long);
});

test('the limit counts bytes, not characters, and may be another one', async () => {
  const deps = memoryDeps();
  expect(await putIfLarge(deps, 'values/a.json', 'äö', 4)).toBe(false);
  expect(await putIfLarge(deps, 'values/b.json', 'äöü', 4)).toBe(true);
  expect(await getLarge(deps, 'values/b.json')).toBe('äöü');
});
