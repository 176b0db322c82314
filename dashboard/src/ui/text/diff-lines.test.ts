import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { type DiffLine, diffLines } from './diff-lines.ts';

const MARKS = { same: ' ', added: '+', removed: '-' };
const inShort = (lines: readonly DiffLine[]) => lines.map(({ kind, text }) => `${MARKS[kind]}${text}`);
const without = (kind: DiffLine['kind'], lines: readonly DiffLine[]) =>
  lines
    .filter((line) => line.kind !== kind)
    .map(({ text }) => text)
    .join('\n');

test.each<[before: string, after: string, lines: readonly string[]]>([
  ['', '', [' ']],
  ['a\nb\nc', 'a\nb\nc', [' a', ' b', ' c']],
  ['a\nb\nc', 'a\nx\nc', [' a', '-b', '+x', ' c']],
  ['a\nb\nc', 'a\nx\ny\nc', [' a', '-b', '+x', '+y', ' c']],
  ['a\nb', 'x\na\nb\ny', ['+x', ' a', ' b', '+y']],
  ['a\nb\nc\nd', 'b\nd', ['-a', ' b', '-c', ' d']],
  ['a\n', 'a', [' a', '-']],
])('of %j and %j', (before, after, lines) => {
  expect(inShort(diffLines(before, after))).toEqual(lines);
});

test('both texts are in their lines', () => {
  const text = fc.array(fc.constantFrom('a', 'b', 'c', ''), { maxLength: 30 }).map((lines) => lines.join('\n'));
  fc.assert(
    fc.property(text, text, (before, after) => {
      const lines = diffLines(before, after);
      expect(without('added', lines)).toBe(before);
      expect(without('removed', lines)).toBe(after);
    }),
  );
});

const numbered = (name: string, count: number) => Array.from({ length: count }, (_, index) => `${name} ${index}`);

test('a few changes of a long text are found', () => {
  const before = numbered('line', 50_000);
  const after = before.with(100, 'first').with(40_000, 'last').join('\n');
  const changed = diffLines(before.join('\n'), after).filter(({ kind }) => kind !== 'same');
  expect(inShort(changed)).toEqual(['-line 100', '+first', '-line 40000', '+last']);
});

test('long texts that differ everywhere do not keep the page busy', () => {
  const [old, fresh] = [numbered('old', 50_000), numbered('new', 50_000)];
  const shared = (lines: string[]) => ['head', ...lines.flatMap((line) => [line, 'shared']), 'tail'].join('\n');
  const began = performance.now();
  const lines = diffLines(shared(old), shared(fresh));
  expect(performance.now() - began).toBeLessThan(10_000);
  expect(without('added', lines)).toBe(shared(old));
  expect(without('removed', lines)).toBe(shared(fresh));
  expect(lines.filter(({ kind }) => kind === 'same').map(({ text }) => text)).toEqual(['head', 'shared', 'tail']);
});
