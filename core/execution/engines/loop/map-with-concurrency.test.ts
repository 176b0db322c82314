import { expect, test } from 'vitest';
import { mapWithConcurrency } from './map-with-concurrency.ts';

const { signal } = new AbortController();

/** Tasks that end when the test says so. */
function scripted(count: number) {
  const items = Array.from({ length: count }, (_, index) => ({ index, end: Promise.withResolvers<void>() }));
  const begun: number[] = [];
  const work = ({ index, end }: (typeof items)[number]): Promise<void> => {
    begun.push(index);
    return end.promise;
  };
  return { items, begun, work };
}
const soon = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('no more than the limit are under way, in the order of the items', async () => {
  const { items, begun, work } = scripted(5);
  const done = mapWithConcurrency(2, items, signal, work);
  expect(begun).toEqual([0, 1]);
  items[1]!.end.resolve();
  await soon();
  expect(begun).toEqual([0, 1, 2]);
  for (const { end } of items) end.resolve();
  await done;
  expect(begun).toEqual([0, 1, 2, 3, 4]);
});

test('nothing new begins after a failure', async () => {
  const { items, begun, work } = scripted(5);
  const done = mapWithConcurrency(2, items, signal, work);
  items[0]!.end.reject(new Error('broken'));
  await expect(done).rejects.toThrow('broken');
  items[1]!.end.resolve();
  await soon();
  expect(begun).toEqual([0, 1]);
});

test('nothing new begins after the signal', async () => {
  const { items, begun, work } = scripted(3);
  const stop = new AbortController();
  const done = mapWithConcurrency(1, items, stop.signal, work);
  stop.abort();
  items[0]!.end.resolve();
  await done;
  expect(begun).toEqual([0]);
});
