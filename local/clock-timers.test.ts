import { expect, onTestFinished, test } from 'vitest';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { ClockTimers } from './clock-timers.ts';

/** Timers over a list of what is due, which lasts as long as it is not fired. */
function timersOver(due: { id: string; workspace_id: string }[], most = 1000) {
  const clock = new ManualClock();
  const fired: { id: string; at: number }[] = [];
  const ends: (() => void)[] = [];
  const errors: unknown[] = [];
  let reads = 0;
  const timers = new ClockTimers({
    clock,
    async *due() {
      if (reads++ === 1) throw new Error('the table is away');
      yield* [...due];
    },
    fire: (schedule, onTaken) => {
      onTaken();
      due.splice(due.indexOf(schedule), 1);
      fired.push({ id: schedule.id, at: clock.now() });
      return new Promise((resolve) => ends.push(resolve));
    },
    concurrencyOf: async () => most,
  });
  timers.start((error) => errors.push(error));
  onTestFinished(() => timers.stop());
  /** A second, and all that follows from it. */
  const tick = async () => {
    await expect.poll(() => clock.sleepers).toBe(1);
    await clock.advance(1000 - (clock.now() % 1000));
    await expect.poll(() => clock.sleepers).toBe(1);
  };
  return { clock, timers, due, fired, ends, errors, tick };
}

test('a thousand that are due in the same second begin in it, each once', async () => {
  const { due, fired, ends, tick, clock } = timersOver([]);
  await tick();
  await tick();
  for (let i = 0; i < 1000; i++) due.push({ id: String(i), workspace_id: String(i % 7) });
  await tick();
  expect(new Set(fired.map(({ id }) => id)).size).toBe(1000);
  expect(new Set(fired.map(({ at }) => at))).toEqual(new Set([clock.now()]));
  expect(clock.now() % 1000).toBe(0);
  await tick();
  expect(fired).toHaveLength(1000);
  expect(ends).toHaveLength(1000);
});

test('a table that cannot be read is read again a second later', async () => {
  const { due, fired, errors, tick } = timersOver([]);
  due.push({ id: 'a', workspace_id: 'w' });
  await tick();
  expect([fired.length, errors.length]).toEqual([0, 1]);
  await tick();
  expect([fired.length, errors.length]).toEqual([1, 1]);
});

test('a workspace has as many at once as its plan allows, and others do not wait for it', async () => {
  const due = ['a', 'b', 'c'].map((id) => ({ id, workspace_id: 'busy' }));
  const { fired, ends, tick } = timersOver([...due, { id: 'x', workspace_id: 'other' }], 2);
  await tick();
  expect(fired.map(({ id }) => id)).toEqual(['a', 'b', 'x']);
  ends[0]!();
  await expect.poll(() => fired.map(({ id }) => id)).toEqual(['a', 'b', 'x', 'c']);
});

test('one whose run goes on is fired again when it is due again', async () => {
  const { due, fired, ends, tick } = timersOver([{ id: 'a', workspace_id: 'w' }]);
  await tick();
  await tick();
  due.push({ id: 'a', workspace_id: 'w' });
  await tick();
  expect(fired.map(({ id }) => id)).toEqual(['a', 'a']);
  expect(ends).toHaveLength(2);
});

test('nothing begins any more once they are stopped', async () => {
  const { timers, due, fired, clock } = timersOver([]);
  await timers.stop();
  due.push({ id: 'a', workspace_id: 'w' });
  await clock.advance(5000);
  expect(fired).toEqual([]);
});
