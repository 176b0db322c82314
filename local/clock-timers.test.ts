import { expect, onTestFinished, test } from 'vitest';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { ClockTimers } from './clock-timers.ts';

let writes = 0;
/** Makes timers poll each second. */
const ALWAYS = { nextDue: async () => undefined, changes: () => writes++ };

/** Timers over a list of due schedules. A schedule leaves the list when it fires. */
function timersOver(due: { id: string; workspaceId: string }[], { maxActive = 1000, startsAtOnce = true } = {}) {
  const clock = new ManualClock();
  const fired: { id: string; at: number }[] = [];
  const starts: (() => void)[] = [];
  const ends: (() => void)[] = [];
  const errors: unknown[] = [];
  let reads = 0;
  const timers = new ClockTimers({
    clock,
    async *due() {
      if (reads++ === 1) throw new Error('the table is away');
      yield* [...due];
    },
    fire: (schedule, { onTaken, onStarted }) => {
      onTaken();
      starts.push(onStarted);
      if (startsAtOnce) onStarted();
      due.splice(due.indexOf(schedule), 1);
      fired.push({ id: schedule.id, at: clock.now() });
      return new Promise((resolve) => ends.push(resolve));
    },
    concurrencyOf: async () => maxActive,
    ...ALWAYS,
  });
  timers.start((error) => errors.push(error));
  onTestFinished(() => timers.stop());
  /** Advances the clock to the next second and waits until the timers sleep again. */
  const tick = async () => {
    await expect.poll(() => clock.sleepers).toBe(1);
    await clock.advance(1000 - (clock.now() % 1000));
    await expect.poll(() => clock.sleepers).toBe(1);
  };
  return { clock, timers, due, fired, starts, ends, errors, tick };
}

test('a thousand schedules that are due in the same second begin in that second, each once', async () => {
  const { due, fired, ends, tick, clock } = timersOver([]);
  await tick();
  await tick();
  for (let i = 0; i < 1000; i++) due.push({ id: String(i), workspaceId: String(i % 7) });
  await tick();
  await expect.poll(() => fired.length).toBe(1000);
  expect(new Set(fired.map(({ id }) => id)).size).toBe(1000);
  expect(new Set(fired.map(({ at }) => at))).toEqual(new Set([clock.now()]));
  expect(clock.now() % 1000).toBe(0);
  await tick();
  expect(fired).toHaveLength(1000);
  expect(ends).toHaveLength(1000);
});

test('a few begin in each turn of the event loop', async () => {
  const { due, fired, tick } = timersOver([], { maxActive: 5000 });
  await tick();
  await tick();
  for (let i = 0; i < 300; i++) due.push({ id: `big ${i}`, workspaceId: 'big' });
  due.push({ id: 'small', workspaceId: 'small' });
  const begun: number[] = [];
  const look = () => {
    begun.push(fired.length);
    if (due.length > 0) setImmediate(look);
  };
  setImmediate(look);
  await tick();
  await expect.poll(() => due.length).toBe(0);
  const steps = begun.map((count, i) => count - (begun[i - 1] ?? 0));
  expect(Math.max(...steps)).toBe(20);
});

test('schedules begin while others are still read', async () => {
  const clock = new ManualClock();
  const fired: string[] = [];
  const firedAtLast: number[] = [];
  const timers = new ClockTimers({
    clock,
    async *due() {
      for (let i = 0; i < 1000; i++) yield { id: String(i), workspaceId: 'w' };
      firedAtLast.push(fired.length);
    },
    fire: async ({ id }) => void fired.push(id),
    concurrencyOf: async () => 1000,
    ...ALWAYS,
  });
  timers.start(() => {});
  onTestFinished(() => timers.stop());
  await expect.poll(() => fired.length).toBe(1000);
  expect(firedAtLast[0]).toBeGreaterThan(0);
});

test('a hundred runs start at a time, and a workspace with one does not wait for all of another', async () => {
  const { due, fired, starts, tick } = timersOver([], { startsAtOnce: false });
  await tick();
  await tick();
  for (let i = 0; i < 190; i++) due.push({ id: `big ${i}`, workspaceId: 'big' });
  due.push({ id: 'small', workspaceId: 'small' });
  await tick();
  await expect.poll(() => fired.length).toBe(100);
  expect(starts).toHaveLength(100);
  // The small workspace was read after the other one's schedules, but its turn comes next.
  expect(fired.findIndex(({ id }) => id === 'small')).toBeLessThanOrEqual(10);
  for (const start of starts.slice(0, 30)) start();
  await expect.poll(() => fired.length).toBe(130);
});

test('no more are read while many may begin, and in the end all have begun', async () => {
  const clock = new ManualClock();
  const starting: (() => void)[] = [];
  let begun = 0;
  let read = 0;
  const timers = new ClockTimers({
    clock,
    async *due() {
      while (read < 2000) yield { id: String(read++), workspaceId: 'w' };
    },
    fire: (_, { onStarted }) => {
      begun++;
      return new Promise((resolve) => {
        starting.push(() => {
          onStarted();
          resolve();
        });
      });
    },
    concurrencyOf: async () => 5000,
    ...ALWAYS,
  });
  timers.start(() => {});
  onTestFinished(() => timers.stop());
  while (begun < 2000) {
    await expect.poll(() => starting.length).toBe(Math.min(100, 2000 - begun + starting.length));
    // The next hundred, plus at most one batch.
    expect(read - begun).toBeLessThanOrEqual(300);
    for (const start of starting.splice(0)) start();
  }
  expect(read).toBe(2000);
});

test('a slow look at the table is followed by a longer pause, which stays bounded when the clock jumps', async () => {
  const clock = new ManualClock();
  const looks: number[] = [];
  const lasting = [500, 500, 8 * 3600_000];
  const timers = new ClockTimers({
    clock,
    async *due() {
      looks.push(clock.now());
      await clock.sleep(lasting[looks.length - 1] ?? 0);
      yield* [];
    },
    fire: async () => {},
    concurrencyOf: async () => 1,
    ...ALWAYS,
  });
  timers.start(() => {});
  onTestFinished(() => timers.stop());
  const pauses = [4500, 4500, 10_000];
  for (const [i, pause] of pauses.entries()) {
    await expect.poll(() => clock.sleepers).toBe(1);
    await clock.advance(lasting[i]!);
    await clock.advance(pause - 1);
    expect(looks).toHaveLength(i + 1);
    await clock.advance(1);
    expect(looks).toHaveLength(i + 2);
  }
});

test('a table that cannot be read is read again a second later', async () => {
  const { due, fired, errors, tick } = timersOver([]);
  due.push({ id: 'a', workspaceId: 'w' });
  await tick();
  expect([fired.length, errors.length]).toEqual([0, 1]);
  await tick();
  expect([fired.length, errors.length]).toEqual([1, 1]);
});

test('a workspace has as many due runs at once as its plan allows calls, and others do not wait for it', async () => {
  const due = ['a', 'b', 'c'].map((id) => ({ id, workspaceId: 'busy' }));
  const { fired, ends, tick } = timersOver([...due, { id: 'x', workspaceId: 'other' }], { maxActive: 2 });
  await tick();
  expect(fired.map(({ id }) => id)).toEqual(['a', 'b', 'x']);
  ends[0]!();
  await expect.poll(() => fired.map(({ id }) => id)).toEqual(['a', 'b', 'x', 'c']);
});

test('a schedule whose run goes on is fired again when it is due again', async () => {
  const { due, fired, ends, tick } = timersOver([{ id: 'a', workspaceId: 'w' }]);
  await tick();
  await tick();
  due.push({ id: 'a', workspaceId: 'w' });
  await tick();
  expect(fired.map(({ id }) => id)).toEqual(['a', 'a']);
  expect(ends).toHaveLength(2);
});

test('the table is read when it has changed, when the next schedule is due, and while one is due', async () => {
  const clock = new ManualClock();
  const due: { id: string; workspaceId: string; at: number }[] = [];
  const fired: string[] = [];
  let [reads, changes, tries] = [0, 0, 0];
  const write = (id: string, at: number) => {
    due.push({ id, workspaceId: 'w', at });
    changes++;
  };
  const timers = new ClockTimers({
    clock,
    async *due() {
      reads++;
      yield* due.filter(({ at }) => at <= clock.now());
    },
    nextDue: async () => due.toSorted((a, b) => a.at - b.at)[0]?.at,
    changes: () => changes,
    fire: async ({ id }, { onTaken }) => {
      if (id === 'busy' && tries++ < 3) return;
      due.splice(
        due.findIndex((each) => each.id === id),
        1,
      );
      onTaken();
      fired.push(id);
    },
    concurrencyOf: async () => 10,
  });
  timers.start(() => {});
  onTestFinished(() => timers.stop());
  const pass = async (seconds: number) => {
    for (let second = 0; second < seconds; second++) {
      await expect.poll(() => clock.sleepers).toBe(1);
      await clock.advance(1000 - (clock.now() % 1000));
      await expect.poll(() => clock.sleepers).toBe(1);
    }
    return reads;
  };
  const start = await pass(1);
  expect(await pass(60)).toBe(start);
  const minute = clock.now() + 60_000;
  write('later', minute);
  expect(await pass(59)).toBe(start + 1);
  write('sooner', minute - 500);
  await pass(1);
  expect(fired).toEqual(['later', 'sooner']);
  expect(await pass(60)).toBe(start + 3);
  write('busy', clock.now());
  await pass(3);
  expect(fired).not.toContain('busy');
  await pass(1);
  expect(fired.at(-1)).toBe('busy');
  // The clock is set back, and a schedule is due at once by it.
  write('past', clock.now() - 10_000);
  await pass(1);
  expect(fired.at(-1)).toBe('past');
});

test('stopped timers begin nothing', async () => {
  const { timers, due, fired, clock } = timersOver([]);
  await timers.stop();
  due.push({ id: 'a', workspaceId: 'w' });
  await clock.advance(5000);
  expect(fired).toEqual([]);
});
