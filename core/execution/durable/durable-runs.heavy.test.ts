import fc from 'fast-check';
import { expect, test } from 'vitest';
import { checkHistory, history, type Life } from '#test/helpers/durable-histories.ts';

test('a durable run continues, and does nothing twice, at every call of a port at which its process dies', async () => {
  const { asked } = await history([]);
  let crashes = 0;
  for (let lifetime = 1; lifetime <= asked; lifetime++) {
    for (const lastOneHappens of [false, true]) {
      const where = `died at ${lifetime} of ${asked}, ${lastOneHappens ? 'after' : 'before'} it`;
      await checkHistory(await history([{ lifetime, lastOneHappens }]), where);
      crashes += 1;
    }
  }
  expect(crashes).toBe(2 * asked);
}, 300_000);

test('processes that die one after another', async () => {
  const { asked } = await history([]);
  const life = fc.record({ lifetime: fc.integer({ min: 1, max: asked }), lastOneHappens: fc.boolean() });
  await fc.assert(
    fc.asyncProperty(fc.array(life, { minLength: 2, maxLength: 3 }), async (lives: Life[]) => {
      await checkHistory(await history(lives), JSON.stringify(lives));
    }),
    { numRuns: 200 },
  );
}, 300_000);
