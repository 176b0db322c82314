import { stripVTControlCharacters, styleText } from 'node:util';
import { expect, test } from 'vitest';
import { table, widthOf } from './output.ts';

test.each([
  ['plain', 5],
  ['日本語', 6],
  ['한국어', 6],
  ['ｆｕｌｌ', 8],
  ['ﾊﾝｶｸ', 4],
  ['café', 4],
  ['cafe\u0301', 4],
  ['🚀', 2],
  ['👩‍👩‍👧‍👦', 2],
  ['🇩🇪', 2],
  ['❤️', 2],
  ['©', 1],
  ['𠮷野家', 6],
  ['a\u200bb', 2],
  [styleText('red', '日本', { validateStream: false }), 4],
  ['', 0],
])('%j takes %i columns', (text, columns) => {
  expect(widthOf(text)).toBe(columns);
});

test('columns stay below each other, also beside wide characters and emoji', () => {
  const rows = [
    ['日本語', 'first', 'x'],
    ['a', '🚀🚀', 'x'],
    ['cafe\u0301', 'third', 'x'],
  ];
  const lines = table(['name', 'text', 'end'], rows, 80).split('\n');
  const starts = lines.map((line) => widthOf(line.slice(0, line.search(/(end|x)$/))));
  expect(new Set(starts).size).toBe(1);
});

test('a line that is too long is cut between characters, and fits', () => {
  const rows = [
    ['日本語日本語日本語日本語日本語', 'プラットフォームのエージェント'],
    ['👩‍👩‍👧‍👦'.repeat(20), 'short'],
  ];
  const lines = table(['name', 'text'], rows, 31).split('\n');
  for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(31);
  expect(stripVTControlCharacters(lines[1]!)).toMatch(/^(日本語)+日?本?… /);
  expect(lines[2]).toMatch(/^(👩‍👩‍👧‍👦)+… /u);
});
