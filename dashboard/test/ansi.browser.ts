import { expect, test } from 'vitest';
import { piecesOf } from '../src/ui/text/ansi.ts';

const looks = (text: string) => piecesOf(text).map((piece) => [piece.text, piece.look]);

test('colours of terminals become those of the theme', () => {
  expect(looks('plain \x1b[31mred\x1b[0m \x1b[1;92mgreen\x1b[22m thin\x1b[m end')).toEqual([
    ['plain ', ''],
    ['red', 'text-bad'],
    [' ', ''],
    ['green', 'text-good font-bold'],
    [' thin', 'text-good'],
    [' end', ''],
  ]);
  expect(looks('\x1b[38;5;208morange\x1b[38;2;90;90;255mblue\x1b[90mgrey\x1b[30mblack\x1b[97mwhite')).toEqual([
    ['orange', 'text-warn'],
    ['blue', 'text-info'],
    ['grey', 'text-soft'],
    ['blackwhite', ''],
  ]);
  expect(looks('\x1b[1mbold\x1b[3mboth\x1b[0m\x1b[37;41mground\x1b[0;7mreverse')).toEqual([
    ['bold', 'font-bold'],
    ['both', 'font-bold italic'],
    ['ground', 'bg-bad-ground'],
    ['reverse', 'bg-hover'],
  ]);
});

test('nothing is hidden, moved or markup', () => {
  expect(looks('\x1b[8mhidden\x1b[0m\x1b[2K\x1b[10Ahere')).toEqual([['hiddenhere', '']]);
  expect(looks('<img src=x onerror=alert(1)>')).toEqual([['<img src=x onerror=alert(1)>', '']]);
});

test('of a text of nothing but colours the head is coloured, and all of it is there', () => {
  const text = Array.from({ length: 50_000 }, (_, index) => `\x1b[1;${31 + (index % 2)}m${index % 10}`).join('');
  const pieces = piecesOf(text);
  expect(pieces.length).toBeLessThanOrEqual(2_001);
  expect(pieces.map((piece) => piece.text).join('')).toHaveLength(50_000);
});
