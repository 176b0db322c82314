import { expect, test } from 'vitest';
import { FreshIds } from './fresh-ids.ts';

test('random bytes are as many as asked for, and none are given out twice', () => {
  const ids = new FreshIds();
  const seen = new Set<string>();
  for (const length of [16, 32, 1, 4096, 64, 5000, 33]) {
    for (let round = 0; round < 300; round++) {
      const bytes = ids.randomBytes(length);
      expect(bytes).toHaveLength(length);
      // Sixteen random bytes never repeat by chance.
      for (let at = 0; at + 16 <= Math.min(length, 64); at += 16) {
        const part = Buffer.from(bytes.subarray(at, at + 16)).toString('hex');
        expect(seen).not.toContain(part);
        seen.add(part);
      }
      bytes.fill(0);
    }
  }
});
