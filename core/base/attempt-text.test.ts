import { expect, test } from 'vitest';
import { interruptedText, resumedText } from './attempt-text.ts';

test.each([
  [{ attempt: 1, begins_again: true, reason: 'host_lost' }, 'Continued by another process (attempt 2): host lost'],
  [{ attempt: 2, begins_again: true, reason: 'handover' }, 'Continued by another process (attempt 3): handed over'],
  [{ attempt: 1, begins_again: true, reason: 'retry' }, 'Failed: tried again (attempt 2)'],
  [{ attempt: 1, begins_again: true }, 'Sandbox lost: begun again (attempt 2)'],
  [{ attempt: 2, begins_again: false }, 'Sandbox lost'],
])('the event of a trace %j is told as "%s"', (payload, text) => {
  expect(interruptedText(payload)).toBe(text);
});

test('the progress record counts the attempt that begins', () => {
  const text = 'Continued by another process (attempt 2): host lost';
  expect(resumedText({ attempt: 2, reason: 'host_lost' })).toBe(text);
});
