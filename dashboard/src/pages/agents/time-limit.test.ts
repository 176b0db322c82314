import { expect, test } from 'vitest';
import { timeLimitOf } from './time-limit.ts';

test.each([
  [false, '300 s'],
  [{}, 'limit of the plan'],
  [{ max_active_seconds: 3600 }, 'up to 1 h of work'],
  [{ max_active_seconds: 5430 }, 'up to 1 h 30 min 30 s of work'],
  [{ max_active_seconds: 90_000 }, 'up to 1 d 1 h of work'],
  [{ max_wait_seconds: 604_800 }, 'limit of the plan, waits up to 7 d'],
  [{ max_active_seconds: 60, max_wait_seconds: 7200 }, 'up to 1 min of work, waits up to 2 h'],
] as const)('the time limit of an agent with durable %j is shown as "%s"', (durable, text) => {
  expect(timeLimitOf({ durable, timeout_seconds: 300 })).toBe(text);
});
