import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Json } from '#core/base/json.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { getLarge, isSurelyWithin, MAX_INLINE_BYTES, putIfLarge } from './large-value.ts';

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

test('what is surely within a limit has no longer JSON, and short things are', () => {
  const bytesOf = (value: Json) => Buffer.byteLength(JSON.stringify(value));
  fc.assert(
    fc.property(fc.jsonValue({ noUnicodeString: false }) as fc.Arbitrary<Json>, (value) => {
      expect(isSurelyWithin(bytesOf(value) - 1, value)).toBe(false);
    }),
    { numRuns: 1000 },
  );
  for (const value of [
    '\u0000'.repeat(9),
    [-Number.MIN_VALUE, -Number.MAX_VALUE],
    [[], {}, [{}]],
    { '"': '"' },
  ] as Json[]) {
    expect(isSurelyWithin(bytesOf(value) - 1, value)).toBe(false);
  }
  expect(isSurelyWithin(4096, { input: { name: 'Ada' }, output: 'x'.repeat(500), trace: [{ at: 1, span: 1 }] })).toBe(
    true,
  );
});
