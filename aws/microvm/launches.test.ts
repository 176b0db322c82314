import { expect, test } from 'vitest';
import { openDatabase } from '#local/database/database.ts';
import { SqliteTable } from '#local/database/sqlite-table.ts';
import { TokenBucket } from '#test/scale/meters.ts';
import { VirtualClock } from '#test/scale/virtual-clock.ts';
import { launchInTime } from './launches.ts';

const RATE = 5;

/** Simulates AWS, which starts `rate` VMs a second and refuses further ones. */
function setUp({ rate = RATE, launchesPerSecond = RATE } = {}) {
  const clock = new VirtualClock(Date.parse('2035-06-01T14:00:00Z'));
  const counters = new SqliteTable(openDatabase(':memory:'), 'counters', clock);
  const bucket = new TokenBucket(clock, { rate });
  const asked: number[] = [];
  const begun = clock.now();
  const launch = (patienceMs: number, signal?: AbortSignal) =>
    launchInTime(
      { clock, counters, launchesPerSecond, patience: clock.now() + patienceMs, ...(signal && { signal }) },
      async () => {
        asked.push(clock.now() - begun);
        if (!bucket.take()) throw Object.assign(new Error('Rate exceeded'), { name: 'ThrottlingException' });
      },
    );
  return { clock, asked, launch };
}

test('calls of one moment start at the rate, each asking AWS once, in the order in which they came', async () => {
  const { clock, asked, launch } = setUp();
  const order: number[] = [];
  const calls = Array.from({ length: 20 }, async (_, n) => {
    await launch(60_000);
    order.push(n);
  });
  await clock.until(Promise.all(calls));
  // A second's worth at once, then one about every fifth of a second.
  expect(asked).toEqual([...Array(5).fill(0), ...Array.from({ length: 15 }, (_, n) => 210 * (n + 1))]);
  expect(order).toEqual([...order].sort((a, b) => a - b));
});

test('unused places are good for a second, and not more', async () => {
  const { clock, asked, launch } = setUp();
  await clock.until(launch(60_000));
  await clock.until(clock.sleep(600_000));
  await clock.until(Promise.all(Array.from({ length: 10 }, () => launch(60_000))));
  expect(asked.slice(1).map((at) => at - 600_000)).toEqual([0, 0, 0, 0, 0, 210, 420, 630, 840, 1050]);
});

test('a call whose place would come too late is told so at once, and takes none', async () => {
  const { clock, asked, launch } = setUp();
  const waiting = Array.from({ length: 15 }, () => launch(60_000));
  const before = clock.now();
  await expect(clock.until(launch(1500))).rejects.toMatchObject({
    code: 'RATE_LIMITED',
    extra: { suggested_wait_time: 2 },
  });
  expect(clock.now()).toBe(before);
  const patient = launch(60_000);
  await clock.until(Promise.all([...waiting, patient]));
  expect(asked.at(-1)).toBe(2310);
});

test('a call that is cancelled while it waits for its place asks AWS for nothing', async () => {
  const { clock, asked, launch } = setUp();
  const waiting = Array.from({ length: 8 }, () => launch(60_000));
  const cancel = new AbortController();
  const cancelled = expect(launch(60_000, cancel.signal)).rejects.toThrow('cancelled');
  await clock.until(clock.sleep(100));
  cancel.abort(new Error('cancelled'));
  await clock.until(Promise.all([cancelled, ...waiting]));
  expect(asked).toHaveLength(8);
});

test('where AWS allows less than the setting says, calls ask again until their patience ends', async () => {
  const { clock, asked, launch } = setUp({ rate: 1 });
  const ended = await clock.until(Promise.allSettled(Array.from({ length: 12 }, () => launch(5000))));
  const refused = ended.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
  expect(ended.length - refused.length).toBeGreaterThan(3);
  expect(asked.length).toBeGreaterThan(12);
  for (const error of refused) {
    expect(error).toMatchObject({ code: 'RATE_LIMITED', extra: { suggested_wait_time: 5 } });
  }
});

test('every rate is kept', async () => {
  const { clock, asked, launch } = setUp({ rate: 3, launchesPerSecond: 3 });
  await clock.until(Promise.all(Array.from({ length: 6 }, () => launch(60_000))));
  expect(asked).toEqual([0, 0, 0, 350, 700, 1050]);
});
