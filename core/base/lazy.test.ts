import { expect, test } from 'vitest';
import { lazy } from './lazy.ts';

test('loads once, and again only after a failure', async () => {
  let loads = 0;
  const load = lazy(async () => {
    loads++;
    if (loads === 1) throw new Error('no such file');
    return { loads };
  });
  await expect(load()).rejects.toThrow('no such file');
  const [first, second] = await Promise.all([load(), load()]);
  expect(first).toBe(second);
  expect(loads).toBe(2);
});
