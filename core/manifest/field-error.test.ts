import { expect, test } from 'vitest';
import { fieldName, show, showKind } from './field-error.ts';

test.each<[PropertyKey[], string]>([
  [[], ''],
  [['a'], 'a'],
  [['a', 'b', 0, 'c'], 'a.b[0].c'],
  [[1, 'a'], '[1].a'],
  [['$defs', 'x-y'], '$defs.x-y'],
  [['a', 'b c'], 'a["b c"]'],
  [['a', '"'], 'a["\\""]'],
  [['x'.repeat(100)], `["${'x'.repeat(59)}…"]`],
])('fieldName(%j)', (path, expected) => {
  expect(fieldName(path)).toBe(expected);
});

test.each<[unknown, string, string]>([
  [undefined, 'missing', 'missing'],
  [null, 'null', 'null'],
  [1.5, '1.5', '1.5'],
  [false, 'false', 'false'],
  ['', '""', 'empty'],
  ['a "b"\n', '"a \\"b\\"\\n"', 'a string of 6 characters'],
  ['word '.repeat(20), `"${'word '.repeat(20).slice(0, 59)}…"`, 'a string of 100 characters'],
  [[], 'an empty array', 'an empty array'],
  [[1, 2], 'an array of 2', 'an array of 2'],
  [{ a: 1 }, 'an object', 'an object'],
  ['sk-ant-api03-x', 'a string of 14 characters that looks like a secret', 'a string of 14 characters'],
  ['task_runner-2', '"task_runner-2"', 'a string of 13 characters'],
  ['https://u:p@example.org', 'a string of 23 characters that looks like a secret', 'a string of 23 characters'],
  ['0123456789abcdef0123', 'a string of 20 characters that looks like a secret', 'a string of 20 characters'],
])('show(%j)', (value, shown, kind) => {
  expect(show(value)).toBe(shown);
  expect(showKind(value)).toBe(kind);
});

// The pattern for secrets is quadratic: scanning the whole text would take an hour.
test('only the beginning of a long text is searched for secrets', () => {
  expect(show('x'.repeat(2_000_000))).toBe(`"${'x'.repeat(59)}…"`);
});
