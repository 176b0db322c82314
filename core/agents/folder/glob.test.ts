import { matchesGlob as ofNode } from 'node:path';
import { expect, test } from 'vitest';
import { matchesGlob } from './glob.ts';

const PATHS = [
  'a',
  'a.py',
  'ab.py',
  'test_a.py',
  'a_test.py',
  'x.test.ts',
  'README',
  'README.md',
  'README.d/x',
  'dist/a',
  'dist/a/b',
  'a/dist/b',
  'data/a.csv',
  'data/x/a.csv',
  'data',
  'a/b/c/d',
  'src/__pycache__/x.pyc',
  'a+b',
  'a(b)',
  '[x]',
  'a-b',
  'ä/ö.txt',
  '{a}',
  'a,b',
  'a.b.c',
];
const GLOBS = [
  '*',
  '**',
  'a',
  'a*',
  '*a',
  '?',
  '??',
  'a?b',
  '*.py',
  '**/*.py',
  '**/x',
  'a/**',
  'a/**/d',
  '**/b/**',
  'data',
  'data/',
  'data/**',
  'data/*',
  'data/**/*.csv',
  '**/{dist,data}/**',
  '{dist,build}/**',
  '{README,CHANGELOG}*',
  '**/{test_*.py,*_test.py}',
  '**/*.{test,spec}.*',
  '{a,{b,ab}.py}',
  '{a}',
  '[ab]*',
  '[!a]*',
  '[a-c].*',
  '[',
  '[x]',
  '[[]x]',
  'a+b',
  'a(b)',
  'a.b.c',
  'a.b.?',
  '**/**',
  '*/*',
  'a**',
  '**a',
  '{,a}',
  'ä/*',
  '*,*',
  'a-b',
  '{a,b',
  'a}',
];

test('globs mean what they mean to Node', () => {
  const differ = GLOBS.flatMap((glob) =>
    PATHS.filter((path) => matchesGlob(path, glob) !== ofNode(path, glob)).map((path) => `${glob} ${path}`),
  );
  expect(differ).toEqual([]);
});

test('many braces are refused, many stars end', () => {
  expect(() => matchesGlob('a', '{a,b}'.repeat(20))).toThrow('too many braces');
  expect(matchesGlob('a/'.repeat(200), `${'**/'.repeat(200)}b`)).toBe(false);
});
