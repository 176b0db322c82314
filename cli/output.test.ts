import { stripVTControlCharacters, styleText } from 'node:util';
import { describe, expect, test } from 'vitest';
import { Output, type OutputSettings, table, widthOf } from './output.ts';

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

describe('progress', () => {
  const MB = 1024 ** 2;
  const shown = (settings: Partial<OutputSettings>, total: number, ...done: number[]) => {
    let text = '';
    const stderr = { write: (part: string) => (text += part) };
    const output = new Output({
      ...{ stdout: stderr, stderr, json: false, quiet: false, color: false, isLive: false },
      ...settings,
    });
    const at = output.progress('uploading', total);
    for (const each of done) at(each);
    output.note('done');
    return text;
  };

  test('is a bar on a terminal, which other text never continues', () => {
    const whole = shown({ isLive: true }, 4 * MB, 0, 1, MB, 4 * MB);
    expect(whole.split('\r').map((line) => line.trimEnd())).toEqual([
      '',
      'uploading [                    ] 0 bytes of 4 MB',
      'uploading [=====               ] 1 MB of 4 MB',
      'uploading [====================] 4 MB of 4 MB        \ndone',
    ]);
    expect(shown({ isLive: true }, 4 * MB, 0, MB)).toMatch(/1 MB of 4 MB\ndone\n$/);
  });

  test('is lines elsewhere, one for little', () => {
    expect(shown({}, 4 * MB, 0, 1, 2 * MB, 2 * MB + 1, 4 * MB)).toBe(
      'uploading 4 MB\nuploading 2 MB of 4 MB\nuploading 4 MB of 4 MB\ndone\n',
    );
    expect(shown({}, 900, 0, 450, 900)).toBe('uploading 900 bytes\ndone\n');
    expect(shown({}, 0, 0)).toBe('uploading 0 bytes\ndone\n');
  });

  test('is not shown with --quiet or --json', () => {
    expect(shown({ quiet: true, isLive: true }, MB, 0, MB)).toBe('');
    expect(shown({ json: true, isLive: true }, MB, 0, MB)).toBe('done\n');
  });
});
