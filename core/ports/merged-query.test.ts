import fc from 'fast-check';
import { expect, test } from 'vitest';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { mergedPages } from './merged-query.ts';
import type { Query } from './table.ts';

const PARTITIONS = 4;

/** Times are few, so that many items share one, also more than a page has. */
const items = fc.array(fc.record({ part: fc.nat(PARTITIONS - 1), time: fc.nat(5) }), { maxLength: 120 });

test('partitions read as one, in the order of the index, whatever they share', async () => {
  await fc.assert(
    fc.asyncProperty(items, fc.boolean(), fc.integer({ min: 1, max: 40 }), async (all, reverse, atOnce) => {
      const { runs } = memoryDeps();
      const stored = all.map(({ part, time }, index) => ({
        ...{ pk: `P#${part}`, sk: String(index).padStart(3, '0') },
        ...{ gsi2pk: `T#${part}`, gsi2sk: `t${time}` },
      }));
      for (const item of stored) await runs.put(item);
      const queries = Array.from({ length: PARTITIONS }, (_, part): Query => ({ index: 'gsi2', pk: `T#${part}` }));
      const pages = await Array.fromAsync(mergedPages(runs, queries, { atOnce, reverse }));
      const inOrder = stored.map(({ gsi2sk, sk }) => `${gsi2sk} ${sk}`).sort();
      expect(pages.flat().map(({ gsi2sk, sk }) => `${gsi2sk} ${sk}`)).toEqual(reverse ? inOrder.reverse() : inOrder);
      expect(pages.every((page) => page.length > 0)).toBe(true);
    }),
    { numRuns: 60 },
  );
});

test('a reader of few items does not read many', async () => {
  const { runs } = memoryDeps();
  for (let index = 0; index < 400; index++) {
    const part = index % PARTITIONS;
    await runs.put({ pk: `P#${part}`, sk: `${1000 + index}`, gsi2pk: `T#${part}`, gsi2sk: `${1000 + index}` });
  }
  let read = 0;
  const counting = Object.assign(Object.create(runs) as typeof runs, {
    async query(query: Query) {
      const page = await runs.query(query);
      read += page.items.length;
      return page;
    },
  });
  const queries = Array.from({ length: PARTITIONS }, (_, part): Query => ({ index: 'gsi2', pk: `T#${part}` }));
  for await (const page of mergedPages(counting, queries, { atOnce: 20 })) {
    expect(page.length).toBeGreaterThanOrEqual(20);
    break;
  }
  expect(read).toBeLessThanOrEqual(32);
  expect(await Array.fromAsync(mergedPages(counting, [], { atOnce: 20 }))).toEqual([]);
});
