import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { slowExpressions } from './expressions.ts';

const ROOT = join(import.meta.dirname, '../..');

/** Expressions for short texts: file -> expression -> what bounds the text. */
const BOUNDED: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'core/manifest/bundle/dependency-sources.ts': { '[A-Za-z][A-Za-z0-9+.-]*$': '20 characters' },
  'core/manifest/field-error.ts': {
    '\\b(sk[-_]|[rp]k_|AKIA|gh[a-z]_|github_pat|xox|eyJ|BEGIN )|:\\/\\/[^/]*@|(?=\\w*\\d)(?=\\w*[A-Za-z])[\\w+/=]{20,}':
      '200 characters',
  },
  'core/base/size-text.ts': { '\\B(?<!\\.\\d*)(?=(\\d{3})+(?!\\d))': 'a number' },
  'core/ports/table-rules.ts': { '^-|0+$': 'a number', 'e.*$': 'a number', '^0+|0+$': 'a number' },
  'local/docs/markdown.ts': {
    '^( {0,3})(`{3,}|~{3,})(.*)$': "the platform's own pages",
    '(?<code>(`+)[\\s\\S]*?[^`]\\2(?!`))': "the platform's own pages",
  },
  'local/docs/pages.ts': { '\\[([^\\]]*)\\]\\([^)]*\\)': "the platform's own pages" },
  'local/telemetry/otlp-metrics.ts': { '([a-z_]+)="((?:[^"\\\\]|\\\\.)*)"': "the platform's own metrics" },
  'sdk/js/agent-client.js': { '\\/+$': "the user's own setting" },
  'sdk/js/platform.js': { '\\/+$': "the user's own setting" },
  'sdk/js/workspace.js': { '\\/+$': "the user's own setting" },
};

test('no expression of the product takes more than linear time', () => {
  const files = execFileSync('git', ['ls-files', '*.ts', '*.tsx', '*.js', '*.mjs'], { cwd: ROOT, encoding: 'utf8' })
    .trim()
    .split('\n')
    .filter((file) => !/\.(test|browser|bench)\.tsx?$|^(test|bench|examples|scripts|dashboard\/test)\//.test(file));
  expect(files.length).toBeGreaterThan(700);
  const slow = files.flatMap((file) => slowExpressions(file, readFileSync(join(ROOT, file), 'utf8')));
  expect(slow.filter(({ file, source }) => BOUNDED[file]?.[source] === undefined)).toEqual([]);
  const used = slow.map(({ file, source }) => `${file} ${source}`);
  const listed = Object.entries(BOUNDED).flatMap(([file, each]) =>
    Object.keys(each).map((source) => `${file} ${source}`),
  );
  expect(listed.filter((each) => !used.includes(each))).toEqual([]);
});

test.each([
  ['two quantifiers for the same characters', String.raw`/^(\S+)\s+(.*?)\s*$/`],
  ['one quantifier that is tried at each character', String.raw`/\s*$/`],
  ['nested quantifiers', '/^(a+)+$/'],
])('%s is found', (_, expression) => {
  expect(slowExpressions('a.ts', `const a = 1;\nconst b = ${expression};`)).toMatchObject([{ line: 2 }]);
});

test.each([
  ['a quantifier that cannot take what comes before it', String.raw`/^\d+\.\d+$/`],
  ['quantifiers with limits', String.raw`/\s{0,10}\w{0,10}$/`],
])('%s is not', (_, expression) => {
  expect(slowExpressions('a.ts', `const b = ${expression};`)).toEqual([]);
});
