import { expect, test } from 'vitest';
import { compareMinutes } from '#test/helpers/cron-minutes.ts';

test('EventBridge wakes the platform at the minutes that a Unix expression names, for many expressions', {
  timeout: 300_000,
}, () => {
  expect(compareMinutes(100)).toBeGreaterThan(100_000);
});
