import { describe, expect, test } from 'vitest';
import { dropOf, type VersionScores } from './drop.ts';
import { isSampled } from './sampling.ts';

const times = (count: number, ...values: number[]): number[] =>
  Array.from({ length: count }, (_, n) => values[n % values.length]!);
const scores = (version: number, ...recent: number[]): VersionScores => ({ version, recent });

describe('scores', () => {
  test('that fall are a drop, those that rise or stay are none', () => {
    const good = times(60, 1, 0.8);
    const bad = times(20, 0.5, 0.3);
    expect(dropOf(scores(1, ...good, ...bad), undefined)).toEqual({
      ...{ version: 1, mean: expect.closeTo(0.4), runs: 20 },
      before: { version: 1, mean: expect.closeTo(0.9), runs: 60 },
    });
    expect(dropOf(scores(1, ...times(60, 0.5, 0.3), ...times(20, 1, 0.8)), undefined)).toBeUndefined();
    expect(dropOf(scores(1, ...good, ...times(20, 1, 0.8)), undefined)).toBeUndefined();
  });

  test('of a new version are compared with those of the former one, until it has enough of its own', () => {
    const former = scores(3, ...times(25, 0.9));
    expect(dropOf(scores(5, ...times(20, 0.6)), former)?.before).toEqual({
      ...{ version: 3, mean: expect.closeTo(0.9), runs: 25 },
    });
    expect(dropOf(scores(5, ...times(40, 0.6)), former)).toBeUndefined();
    expect(dropOf(scores(5, ...times(19, 0.6)), former)).toBeUndefined();
    expect(dropOf(scores(5, ...times(20, 0.6)), scores(3, ...times(19, 0.9)))).toBeUndefined();
    expect(dropOf(scores(5, ...times(20, 0.6)), undefined)).toBeUndefined();
  });

  test('that fall by less than 0.1, or as chance may have it, are no drop', () => {
    expect(dropOf(scores(1, ...times(60, 0.9), ...times(20, 0.81)), undefined)).toBeUndefined();
    expect(dropOf(scores(1, ...times(60, 0.9), ...times(20, 0.8)), undefined)).toBeDefined();
    // 16 of 20 after 54 of 60.
    expect(
      dropOf(scores(1, ...times(60, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0), ...times(20, 1, 1, 1, 1, 0)), undefined),
    ).toBeUndefined();
    expect(dropOf(scores(1, ...times(60, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0), ...times(20, 1, 0)), undefined)).toBeDefined();
  });

  test('that stay as they are ring seldom', () => {
    let state = 7;
    const random = () => {
      state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
      return state / 2 ** 31;
    };
    const all = Array.from({ length: 5000 }, () => (random() < 0.8 ? 1 : 0));
    const rings = all.filter(
      (_, n) => dropOf(scores(1, ...all.slice(Math.max(0, n - 80), n)), undefined) !== undefined,
    );
    expect(rings.length).toBeLessThan(25);
  });
});

test('a sample follows from the id alone, has about its share, and a larger one has all of a smaller one', () => {
  const ids = Array.from({ length: 4000 }, (_, n) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`);
  const small = ids.filter((id) => isSampled(id, 0.05));
  expect(small.length).toBeGreaterThan(150);
  expect(small.length).toBeLessThan(250);
  expect(small.every((id) => isSampled(id, 0.1))).toBe(true);
  expect(ids.some((id) => isSampled(id, 0))).toBe(false);
  expect(ids.every((id) => isSampled(id, 1))).toBe(true);
});
