import { expect, test } from 'vitest';
import { repairDeadline } from './output-repair.ts';

test.each([
  [60_000, 40_000, true],
  [60_000, 45_000, false],
  // A third of the time remains.
  [24_000, 12_000, true],
  [24_000, 17_000, false],
  [300_000, 280_000, true],
])('of %i ms, after %i there is time for a corrected answer: %s', (deadline, now, isTime) => {
  expect(repairDeadline({ deadline }, 0, now)).toBe(isTime ? deadline - 1_000 : undefined);
});
