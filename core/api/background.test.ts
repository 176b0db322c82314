import { describe, expect, test } from 'vitest';
import { BACKGROUND, BACKGROUND_FUNCTIONS, type BackgroundRow, backgroundFunction } from './background.ts';

const rows = Object.entries<BackgroundRow>(BACKGROUND);

describe.each(rows)('%s', (_, { local, aws }) => {
  test('each host says what starts it, or why the host does not need it', () => {
    for (const { by, notNeeded, ...clock } of [local, { ...aws, fn: undefined }]) {
      const starts = [by, notNeeded, ...Object.values(clock)].filter((start) => start !== undefined);
      expect(starts).toHaveLength(1);
    }
  });

  test('it has a function on AWS exactly if AWS needs it', () => {
    expect(aws.fn === undefined).toBe(aws.notNeeded !== undefined);
  });
});

test.each(BACKGROUND_FUNCTIONS)('the rows of %s that have a clock share it', (fn) => {
  const periods = rows.filter(([, { aws }]) => aws.fn === fn).flatMap(([, { aws }]) => aws.everyMinutes ?? []);
  expect([...new Set(periods)]).toEqual([backgroundFunction(fn).everyMinutes ?? []].flat());
});
