import { expect, test } from 'vitest';
import { countText, sizeText } from './size-text.ts';

test.each([0, 7, 999, 1000, 12_345, 999_999, 1_000_000, 2 ** 31 - 1, -1234, 1023.5, 1234.567])(
  '%s is written as English has it',
  (count) => {
    expect(countText(count)).toBe(count.toLocaleString('en'));
  },
);

test.each([
  [950, '950 bytes'],
  [1536, '1.5 KB'],
  [25 * 1024 * 1024, '25 MB'],
  [1023.96 * 1024, '1,024 KB'],
  [5000 * 1024 ** 4, '5,000 TB'],
])('%s bytes are %s', (bytes, text) => {
  expect(sizeText(bytes)).toBe(text);
});
