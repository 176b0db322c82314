import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');

/**
 * Beginnings that leave out the noun a sentence is about ("Of the newest order that it follows"). The next words decide:
 * "As root, the launcher ..." has its subject, so only doc comments, which describe a name, are checked.
 */
const FRAGMENT = /^\/\*\*\s*\*?\s*(?:Of|As|With|Without)\b/;

function problemsOf(file: string, text: string): string[] {
  const comments = [...text.matchAll(/\/\*\*(?:[^*]|\*(?!\/))*\*\//g)];
  const fragments = comments.filter(([comment]) => FRAGMENT.test(comment));
  const names = [...text.matchAll(/\b(?:const|let|readonly)\s+(MOST_\w+|LEAST_\w+)/g)];
  const lineOf = (index: number): number => text.slice(0, index).split('\n').length;
  return [
    ...fragments.map(
      ({ 0: comment, index }) => `${file}:${lineOf(index)} begins without a noun: ${comment.slice(0, 60)}`,
    ),
    ...names.map(({ 1: name, index }) => `${file}:${lineOf(index)} ${name}: say MAX_ or MIN_`),
  ];
}

test('doc comments begin with a noun or a verb, and bounds are named MAX and MIN', () => {
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '*.ts', '*.tsx', '*.js', '*.mjs'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  const files = listed.split('\n').filter((file) => file !== '' && !/^sdk\/js\/types\/|^test\/house\/words/.test(file));
  expect(files.length).toBeGreaterThan(1000);
  expect(files.flatMap((file) => problemsOf(file, readFileSync(join(ROOT, file), 'utf8')))).toEqual([]);
});

test.each([
  ['/** Of the newest order that it follows. */', 1],
  ['/**\n * As the launcher takes it.\n */', 1],
  ['const MOST_ROWS = 5;', 1],
  ['/** Offset of the page. */\nconst MAX_ROWS = 5;', 0],
  ['// As root, the launcher builds this once.', 0],
])('%j has %i problems', (text, count) => {
  expect(problemsOf('a.ts', text)).toHaveLength(count);
});
