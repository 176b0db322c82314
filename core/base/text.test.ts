import { expect, test } from 'vitest';
import { endOf, startOf } from './text.ts';

test.each(['plain text', 'grüße aus köln', '日本語のテキスト', '👩‍👩‍👧 und 👍', ''])(
  'beginning and end of %j have whole characters, at any length',
  (text) => {
    const bytes = Buffer.from(text);
    for (let max = 0; max <= bytes.byteLength + 2; max++) {
      for (const [part, isPart] of [
        [Buffer.from(startOf(bytes, max)).toString(), text.startsWith.bind(text)],
        [Buffer.from(endOf(bytes, max)).toString(), text.endsWith.bind(text)],
      ] as const) {
        expect(isPart(part)).toBe(true);
        expect(Buffer.byteLength(part)).toBeLessThanOrEqual(max);
        // A character has at most four bytes.
        expect(Buffer.byteLength(part)).toBeGreaterThan(Math.min(max, bytes.byteLength) - 4);
      }
    }
  },
);
