import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Batcher } from './batcher.ts';

const recorded = (most = 100) => {
  const together = new Batcher<number, number>(most);
  const performed: (readonly number[])[] = [];
  const ask = (asked: number, key = 'a') =>
    together.ask(key, asked, async (all) => {
      performed.push(all);
      return all.map((each) => -each);
    });
  return { ask, performed };
};

test('what is asked for before the event loop goes on is done at once, each with its own answer', async () => {
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

test('keys are apart, and no more than the most are done at once', async () => {
  const { ask, performed } = recorded(2);
  expect(await Promise.all([ask(1), ask(2, 'b'), ask(3), ask(4), ask(5, 'b')])).toEqual([-1, -2, -3, -4, -5]);
  expect(performed).toEqual([[1, 3], [2, 5], [4]]);
});

test('all get the error of what was done at once, and the next ones are not touched by it', async () => {
  const together = new Batcher<number, number>(10);
  const fail = () => together.ask('a', 1, async () => Promise.reject(new Error('away')));
  const settled = await Promise.allSettled([fail(), fail()]);
  expect(settled.map((each) => each.status === 'rejected' && each.reason.message)).toEqual(['away', 'away']);
  expect(await together.ask('a', 1, async (all) => all)).toBe(1);
});
