import fc from 'fast-check';
import { expect, test } from 'vitest';
import { SystemIds } from '#core/ports/ids.ts';
import { decodeKey, encodeKey, hashKey, isKey, newKey, prefixOf } from './key-format.ts';

const ids = (bytes: Uint8Array) => ({ cell: 'b', uuid: () => '', randomBytes: () => bytes });
const someKey = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => newKey(ids(bytes)));

test('every key has the same length and form', () => {
  fc.assert(
    fc.property(someKey, (key) => {
      expect(key).toMatch(/^sk_live_b[0-9A-Za-z]{50}$/);
      expect(isKey(key)).toBe(true);
      expect(prefixOf(key)).toBe(key.slice(0, 12));
      expect(hashKey(key)).toMatch(/^[0-9a-f]{64}$/);
    }),
  );
});

test('different bytes make different keys', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), fc.nat(31), (bytes, at) => {
      const other = bytes.with(at, bytes[at]! ^ 1);
      expect(newKey(ids(other))).not.toBe(newKey(ids(bytes)));
    }),
  );
});

test('detects one wrong character', () => {
  const letters = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
  fc.assert(
    fc.property(someKey, fc.integer({ min: 8, max: 56 }), fc.constantFrom(...letters), (key, at, letter) => {
      fc.pre(key[at] !== letter);
      expect(isKey(key.slice(0, at) + letter + key.slice(at + 1))).toBe(false);
    }),
  );
});

test('detects two swapped characters', () => {
  fc.assert(
    fc.property(someKey, fc.integer({ min: 8, max: 55 }), (key, at) => {
      fc.pre(key[at] !== key[at + 1]);
      expect(isKey(key.slice(0, at) + key[at + 1] + key[at] + key.slice(at + 2))).toBe(false);
    }),
  );
});

test.each(['', 'sk_live_', 'sk_test_', 'x'.repeat(100_000)])('%.20s is not a key', (text) => {
  expect(isKey(text)).toBe(false);
});

test('a key with other characters around it is not a key', () => {
  const key = newKey(new SystemIds());
  for (const text of [`${key} `, ` ${key}`, `${key}\n`, key.toLowerCase(), key.replace('sk_live_', 'sk_test_')]) {
    expect(isKey(text)).toBe(false);
  }
});

test('a key of another cell is a key, and so is one without a letter', () => {
  const bytes = Uint8Array.from({ length: 32 }, (_, at) => at + 1);
  const keys = ['a', 'b', 'z'].map((cell) => newKey({ cell, randomBytes: () => bytes }));
  const old = encodeKey('sk_live_', '', bytes);
  expect(old).toMatch(/^sk_live_[0-9A-Za-z]{50}$/);
  expect(new Set([...keys, old].map(hashKey)).size).toBe(4);
  for (const key of [...keys, old]) {
    expect(isKey(key)).toBe(true);
    expect(decodeKey('sk_live_', 32, key)).toEqual(Buffer.from(bytes));
  }
  // The checksum covers the letter, which can be neither changed nor taken away.
  for (const letter of ['c', 'A', '1', '-', '']) expect(isKey(keys[0]!.replace('_a', `_${letter}`))).toBe(false);
});
