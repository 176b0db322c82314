import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createTickLimiter } from './tick-limiter.ts';

test('begins what comes in its order, so much in each turn of the event loop', async () => {
  const begin = createTickLimiter(2);
  const begun: string[] = [];
  for (const name of ['a', 'b', 'c', 'd', 'e']) begin(() => begun.push(name));
  expect(begun).toEqual(['a', 'b']);
  await nextTurn();
  expect(begun).toEqual(['a', 'b', 'c', 'd']);
  // Queued behind the waiting work.
  begin(() => begun.push('f'));
  await nextTurn();
  expect(begun).toEqual(['a', 'b', 'c', 'd', 'e', 'f']);
  await nextTurn();
  begin(() => begun.push('g'));
  expect(begun.at(-1)).toBe('g');
});

test('work may bring further work', async () => {
  const begin = createTickLimiter(1);
  const begun: number[] = [];
  const chain = (count: number): void => {
    begun.push(count);
    if (count < 3) begin(() => chain(count + 1));
  };
  begin(() => chain(1));
  expect(begun).toEqual([1]);
  for (let turn = 0; turn < 3; turn++) await nextTurn();
  expect(begun).toEqual([1, 2, 3]);
});
