import { expect, test } from 'vitest';
import { checkHistory, history, SENDS } from '#test/helpers/durable-histories.ts';

/** Every eighth call of a port: `durable-runs.heavy.test.ts` has all of them, and processes that die one after another. */
const STEP = 8;

test('a durable run continues, and does nothing twice, at whichever call of a port its process dies', async () => {
  const whole = await history([]);
  await checkHistory(whole, 'nobody died');
  expect(whole.world.sent).toEqual(['a', 'b', 'c', ...SENDS]);
  for (let lifetime = 1; lifetime <= whole.asked; lifetime += STEP) {
    const lastOneHappens = (lifetime / STEP) % 2 < 1;
    const where = `died at ${lifetime} of ${whole.asked}, ${lastOneHappens ? 'after' : 'before'} it`;
    await checkHistory(await history([{ lifetime, lastOneHappens }]), where);
  }
});
