import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Batcher } from './batcher.ts';

const recorded = (maxBatchSize = 100) => {
  const together = new Batcher<number, number>(maxBatchSize);
  const performed: (readonly number[])[] = [];
  const ask = (asked: number, key = 'a') =>
    together.ask(key, asked, async (all) => {
      performed.push(all);
      return all.map((each) => -each);
    });
  return { ask, performed };
};

test('requests of one tick are handled in one batch, each with its own answer', async () => {
  const { ask, performed } = recorded();
  const later = async (asked: number, turns: number) => {
    for (let turn = 0; turn < turns; turn++) await undefined;
    return ask(asked);
  };
  expect(await Promise.all([ask(1), later(2, 5), later(3, 50)])).toEqual([-1, -2, -3]);
  expect(performed).toEqual([[1, 2, 3]]);
  await setImmediate();
  expect(await ask(4)).toBe(-4);
  expect(performed).toEqual([[1, 2, 3], [4]]);
});

test('requests with different keys are not batched together, and a batch has at most the maximum size', async () => {
  const { ask, performed } = recorded(2);
  expect(await Promise.all([ask(1), ask(2, 'b'), ask(3), ask(4), ask(5, 'b')])).toEqual([-1, -2, -3, -4, -5]);
  expect(performed).toEqual([[1, 3], [2, 5], [4]]);
});

test('all requests of a failed batch get its error, and later requests are not affected', async () => {
  const together = new Batcher<number, number>(10);
  const fail = () => together.ask('a', 1, async () => Promise.reject(new Error('away')));
  const settled = await Promise.allSettled([fail(), fail()]);
  expect(settled.map((each) => each.status === 'rejected' && each.reason.message)).toEqual(['away', 'away']);
  expect(await together.ask('a', 1, async (all) => all)).toBe(1);
});
