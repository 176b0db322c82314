import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isKey, prefixOf } from '../keys/key-format.ts';
import { isServiceKey, isStaticKey, newRunKey, newStaticKey, readRunKey } from './key-format.ts';

const ids = (bytes: Uint8Array) => ({ cell: 'b', uuid: () => '', randomBytes: () => bytes });
const secret = fc.uint8Array({ minLength: 32, maxLength: 32 });

test('a run key contains its workspace and run', () => {
  fc.assert(
    fc.property(fc.uuid(), fc.uuid(), secret, (workspaceId, runId, bytes) => {
      const key = newRunKey(ids(bytes), { workspaceId, runId });
      expect(key).toMatch(/^sk_agent_b[0-9A-Za-z]{93}$/);
      expect(readRunKey(key)).toEqual({ workspaceId, runId });
      expect([isServiceKey(key), isStaticKey(key), isKey(key)]).toEqual([true, false, false]);
    }),
  );
});

test('a static key is not a run key', () => {
  fc.assert(
    fc.property(secret, (bytes) => {
      const key = newStaticKey(ids(bytes));
      expect(key).toMatch(/^sk_agent_b[0-9A-Za-z]{50}$/);
      expect([isServiceKey(key), isStaticKey(key), isKey(key)]).toEqual([true, true, false]);
      expect(readRunKey(key)).toBeUndefined();
      expect(prefixOf(key)).toHaveLength(12);
    }),
  );
});

test('detects one wrong character', () => {
  const letters = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
  const position = fc.integer({ min: 9, max: 101 });
  fc.assert(
    fc.property(fc.uuid(), secret, position, fc.constantFrom(...letters), (id, bytes, at, letter) => {
      const key = newRunKey(ids(bytes), { workspaceId: id, runId: id });
      fc.pre(key[at] !== letter);
      const other = key.slice(0, at) + letter + key.slice(at + 1);
      expect([readRunKey(other), isServiceKey(other)]).toEqual([undefined, false]);
    }),
  );
});

test.each(['', 'sk_agent_', 'sk_agent_1', `sk_agent_${'z'.repeat(93)}`, 'x'.repeat(100_000)])(
  '%.20s is not a service key',
  (text) => {
    expect([isServiceKey(text), readRunKey(text)]).toEqual([false, undefined]);
  },
);
