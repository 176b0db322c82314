import { expect, test } from 'vitest';
import { compareMinutes } from '#test/helpers/cron-minutes.ts';

test('EventBridge wakes the platform at the minutes that a Unix expression names', () => {
  expect(compareMinutes(4)).toBeGreaterThan(0);
});
