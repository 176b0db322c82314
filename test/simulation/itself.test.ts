import { expect, test } from 'vitest';
import type { Table } from '#core/ports/table.ts';
import { type Style, simulate } from './scenario.ts';

const STYLES = ['local', 'queue'] as const satisfies Style[];

test.each(STYLES)('%s: a seed plays the same again', async (style) => {
  for (const seed of [3, 17]) {
    const told = await simulate(style, seed, { isTraced: true });
    expect(told.length).toBeGreaterThan(50);
    expect(await simulate(style, seed, { isTraced: true })).toEqual(told);
  }
});

test.each(STYLES)('%s: a table that loses one write is found out', async (style) => {
  const found: string[] = [];
  for (let seed = 1; seed <= 12; seed++) {
    let writes = 0;
    const faulty = (main: Table): Table => ({
      ...main,
      transact: async (operations) => (++writes === 8 ? { ok: true } : main.transact(operations)),
    });
    await simulate(style, seed, { faulty }).catch((error: Error) => found.push(error.message));
  }
  // In the others it was a write of no account, or there were not so many.
  expect(found.length).toBeGreaterThan(3);
  expect(found[0]).toMatch(new RegExp(`^${style} seed \\d+: `));
});
