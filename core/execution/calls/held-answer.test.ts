import { beforeEach, expect, test } from 'vitest';
import { RunContinuesError } from '#core/runs/run-continues.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import type { CallAnswer } from './finish.ts';
import { answerWhileHeld } from './held-answer.ts';

const ANSWER: CallAnswer = { data: 1, warnings: [], executionMs: 5, stdout: '', stderr: '' };

let clock: ManualClock;
beforeEach(() => {
  clock = new ManualClock();
});

test.each([undefined, 1000])(
  'returns an answer that comes in time, and waits no longer: held for %s ms',
  async (ms) => {
    const heldUntil = ms === undefined ? {} : { heldUntil: clock.now() + ms };
    const work = Promise.withResolvers<CallAnswer>();
    const answered = answerWhileHeld({ clock }, heldUntil, work.promise);
    await clock.advance(999);
    work.resolve(ANSWER);
    expect(await answered).toBe(ANSWER);
    expect(clock.sleepers).toBe(0);
  },
);

test('returns nothing once the call is held no longer', async () => {
  const answered = answerWhileHeld({ clock }, { heldUntil: clock.now() + 1000 }, new Promise(() => {}));
  await clock.advance(1000);
  expect(await answered).toBeUndefined();
});

test('returns nothing for a run that continues elsewhere, and throws the error of one that failed', async () => {
  const held = { heldUntil: clock.now() + 1000 };
  const failure = new Error('failed');
  expect(await answerWhileHeld({ clock }, held, Promise.reject(new RunContinuesError('run', 'wait')))).toBeUndefined();
  await expect(answerWhileHeld({ clock }, held, Promise.reject(failure))).rejects.toBe(failure);
  expect(clock.sleepers).toBe(0);
});
