import { expect, test } from 'vitest';
import { timeLimitOf } from './time-limit.ts';

test.each([
  [false, '300 s'],
  [{}, 'limit of the plan'],
  [{ max_active_seconds: 3600 }, 'up to 1 h of work'],
  [{ max_active_seconds: 5430 }, 'up to 1 h 30 min 30 s of work'],
] as const)('the time limit of an agent with durable %j is shown as "%s"', (durable, text) => {
  expect(timeLimitOf({ durable, timeout_seconds: 300 })).toBe(text);
});
