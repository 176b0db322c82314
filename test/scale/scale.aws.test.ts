import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { hasCode } from '#core/base/errors.ts';
import { synthesise } from '#test/helpers/templates.ts';
import { stage } from '../../stages/prod.ts';
import { LambdaModel } from './lambda.ts';
import { calls, endsOfOneAgent } from './loads.ts';
import { TokenBucket } from './meters.ts';
import { limitTable } from './page.ts';
import { allLimits, QUOTAS, stageLimits } from './quotas.ts';
import { VirtualClock } from './virtual-clock.ts';
import { createWorld } from './world.ts';

const START = Date.parse('2035-06-01T14:00:00Z');

test('the page names every limit that the model uses, with its value and source, as the templates have it', () => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/scale.md'), 'utf8');
  const rows = limitTable(allLimits(stageLimits(synthesise(stage)))).split('\n');
  expect(rows.length).toBeGreaterThan(Object.keys(QUOTAS).length);
  for (const row of rows) expect(page).toContain(row);
});

describe('the model throttles', () => {
  const limits = { latencyMs: 5, partition: { read: 30, write: 10 }, table: { read: 120, write: 40 } };
  const write = async (throttles: boolean, key: (n: number) => { pk: string; sk: string }, writes: number) => {
    const world = createWorld({ ...limits, throttles, plan: 'pro', modelMs: 0 });
    const all = Array.from({ length: writes }, async (_, n) => world.deps.counters.put(key(n)));
    const ended = await world.clock.until(Promise.allSettled(all));
    const refused = ended.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
    return { refused, throttled: world.dynamo.throttled };
  };

  test('an item that gets more than its units a second', async () => {
    const { refused, throttled } = await write(true, () => ({ pk: 'p', sk: 's' }), 200);
    expect(throttled).toBeGreaterThan(100);
    expect(refused.length).toBeGreaterThan(100);
    expect(refused.every((error) => hasCode(error, 'HOST_BUSY'))).toBe(true);
  });

  test('a partition, though each of its items gets little', async () => {
    const { throttled } = await write(true, (n) => ({ pk: 'p', sk: String(n) }), 200);
    expect(throttled).toBeGreaterThan(100);
  });

  test('a new table, though each of its partitions gets little', async () => {
    const { throttled } = await write(true, (n) => ({ pk: String(n), sk: 's' }), 400);
    expect(throttled).toBeGreaterThan(100);
  });

  test('nothing below the limits, and nothing when it only counts', async () => {
    expect(await write(true, (n) => ({ pk: String(n), sk: 's' }), 8)).toEqual({ refused: [], throttled: 0 });
    expect(await write(false, () => ({ pk: 'p', sk: 's' }), 200)).toEqual({ refused: [], throttled: 0 });
  });

  test('concurrent transactions on an item, and no others', async () => {
    const world = createWorld({
      ...limits,
      partition: { read: 1e6, write: 1e6 },
      table: { read: 1e6, write: 1e6 },
      throttles: true,
      plan: 'pro',
      modelMs: 0,
    });
    const add = (sk: string) => ({ op: 'update', key: { pk: 'p', sk }, changes: { add: { n: 1 } } }) as const;
    const all = (items: (n: number) => string) =>
      world.clock.until(
        Promise.all(Array.from({ length: 40 }, (_, n) => world.deps.counters.transact([add(items(n))]))),
      );
    expect((await all((n) => String(n))).every(({ ok }) => ok)).toBe(true);
    expect(world.dynamo.conflicts).toBe(0);
    const results = await all(() => 'same');
    expect(world.dynamo.conflicts).toBeGreaterThan(40);
    const counted = (await world.quiet.counters.get({ pk: 'p', sk: 'same' }))?.n;
    expect(results.filter(({ ok }) => ok)).toHaveLength(counted as number);
  });

  test.each([300, 3000])(
    'ends of one agent do not conflict, at %i a second and with 16 shards of its stream',
    async (rate) => {
      const limits = allLimits(stageLimits(synthesise(stage)));
      const roomy = { partitionReads: 1e6, partitionWrites: 1e6, tableReads: 1e6, tableWrites: 1e6, tableMs: 10 };
      const props = { limits: { ...limits, ...roomy }, throttles: true };
      const { ended, ends, summed, demand } = await endsOfOneAgent(props, { rate, seconds: 2 });
      expect(ended).toEqual({ ended: ends, refused: 0 });
      expect(ends).toBe(2 * rate);
      expect(summed).toBe(ends);
      expect(demand.conflicts).toBeLessThan(0.05);
    },
  );

  test('the same seed meets the same limits, and another one others', async () => {
    const limits = { ...allLimits(stageLimits(synthesise(stage))), tableWrites: 60, tableReads: 200 };
    const play = async (seed: number) => {
      const { world, ended } = await calls(
        { limits, throttles: true },
        { rate: 40, seconds: 1, modelMs: 100, callers: 'half one agent', seed },
      );
      return {
        ended,
        throttled: world.dynamo.throttled,
        conflicts: world.dynamo.conflicts,
        peaks: world.dynamo.peaks(),
      };
    };
    // Modules that are loaded meanwhile take real time.
    await play(1);
    const first = await play(1);
    expect(first.throttled).toBeGreaterThan(0);
    expect(Object.keys(first.ended)).toContain('200');
    expect(await play(1)).toEqual(first);
    expect(await play(2)).not.toEqual(first);
  });

  test('Lambda above its executions, and leaves reserved ones to their function', async () => {
    const clock = new VirtualClock(START);
    const reserved = { sweeper: 2 };
    const lambda = new LambdaModel({ clock, concurrency: 10, scaling: 1000, reserved, startMs: 100, throttles: true });
    const calls = Array.from({ length: 20 }, () => lambda.invoke('calls', () => clock.sleep(1000)));
    const sweeps = Array.from({ length: 2 }, () => lambda.invoke('sweeper', () => clock.sleep(1000)));
    const [ended, swept] = await clock.until(Promise.all([Promise.allSettled(calls), Promise.allSettled(sweeps)]));
    expect(ended.filter(({ status }) => status === 'rejected')).toHaveLength(12);
    expect(swept.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
    expect(lambda.all.peak).toBe(10);
    await clock.until(lambda.invoke('calls', async () => {}));
  });

  test('a function that grows faster than Lambda gives it environments', async () => {
    const clock = new VirtualClock(START);
    const lambda = new LambdaModel({ clock, concurrency: 100, scaling: 5, reserved: {}, startMs: 1, throttles: true });
    const calls = Array.from({ length: 8 }, () => lambda.invoke('calls', () => clock.sleep(1000)));
    const ended = await clock.until(Promise.allSettled(calls));
    expect(ended.filter(({ status }) => status === 'rejected')).toHaveLength(3);
  });

  test('a bucket gives its burst and then its rate', async () => {
    const clock = new VirtualClock(START);
    const bucket = new TokenBucket(clock, { rate: 2, burst: 5 });
    const taken = () => Array.from({ length: 10 }, () => bucket.take()).filter(Boolean).length;
    expect(taken()).toBe(5);
    await clock.until(clock.sleep(1000));
    expect(taken()).toBe(2);
    const before = clock.now();
    await clock.until(bucket.wait());
    expect(clock.now() - before).toBe(500);
  });
});

test('the clock wakes in the order of time, and runs ahead', async () => {
  const clock = new VirtualClock(START);
  const woken: string[] = [];
  const wake = (name: string, ms: number) =>
    clock.sleep(ms).then(() => void woken.push(`${name} ${clock.now() - START}`));
  const cancel = clock.after(20, () => woken.push('never'));
  cancel();
  await clock.until(Promise.all([wake('b', 3_600_000), wake('a', 10), wake('c', 3_600_000)]));
  expect(woken).toEqual(['a 10', 'b 3600000', 'c 3600000']);
});
