import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { Row } from './harness.ts';
import { figureOf, regressionsOf } from './regressions.ts';
import { committedResults, measuredSections, PAGE, pageOfResults } from './results.ts';

const row = (result: string, bound: string, more: Partial<Row> = {}): Row => ({
  what: 'a path',
  ours: '',
  beside: '',
  result,
  bound,
  isMet: true,
  ...more,
});

test.each([
  ['1.7 x Restate', 'at least 2.5 x', { figure: 1.7, better: 'more', tolerance: 0.25 }],
  ['0.28 of it', 'at least 0.30', { figure: 0.28, better: 'more', tolerance: 0.25 }],
  ['1.24 of 10 connections', 'no slower; under 250 MB', { figure: 1.24, better: 'more', tolerance: 0.25 }],
  ['26.95 s, 41.2 x', 'inside 10 s, at most 4 x', { figure: 26.95, better: 'less', tolerance: 1 }],
  ['-4.1 ms over', 'at most 30 ms over', { figure: -4.1, better: 'less', tolerance: 1 }],
  ['7, 4 in sequence', 'at most 7, at most 4', { figure: 7, better: 'less', tolerance: 0 }],
  ['212 KB', 'under 400 KB', { figure: 212, better: 'less', tolerance: 0.05 }],
])('the figure of "%s"', (result, bound, expected) => {
  expect(figureOf(row(result, bound))).toMatchObject(expected);
});

test('a result that is no number has no figure', () => {
  expect(figureOf(row('no peer installed', 'at least 2.5 x'))).toBeUndefined();
});

test('a row may say its own tolerance', () => {
  expect(figureOf(row('2 x', 'at most 3 x', { tolerance: 0.5 }))?.tolerance).toBe(0.5);
});

test('worse than the tolerance is a regression, in the direction of the row', () => {
  const more = figureOf(row('4.0 x', 'at least 2 x'))!;
  const less = figureOf(row('4.0 x', 'at most 5 x'))!;
  const now = (figure: number) => [{ ...more, figure }];
  expect(regressionsOf(now(3.1), [more])).toEqual([]);
  expect(regressionsOf(now(2.9), [more])).toHaveLength(1);
  expect(regressionsOf(now(9), [more])).toEqual([]);
  expect(regressionsOf([{ ...less, figure: 4.9 }], [less])).toEqual([]);
  expect(regressionsOf([{ ...less, figure: 5.1 }], [less])).toHaveLength(1);
  expect(regressionsOf([{ ...less, what: 'new', figure: 99 }], [less])).toEqual([]);
});

test.each(measuredSections())('the committed results of %s are figures, each of a row of its own', (section) => {
  const rows = committedResults(section)!.rows;
  for (const each of rows) {
    expect(figureOf(each), each.what).toMatchObject({ figure: expect.any(Number), tolerance: expect.any(Number) });
  }
  expect(new Set(rows.map(({ what }) => what)).size).toBe(rows.length);
});

test('the page shows the committed results', () => {
  expect(measuredSections().length).toBeGreaterThan(5);
  expect(readFileSync(PAGE, 'utf8')).toBe(pageOfResults());
});
