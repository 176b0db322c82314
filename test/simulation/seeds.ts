import { type Style, simulate } from './scenario.ts';

/** `SEED=17 npx vitest run test/simulation/local.test.ts` plays that one only, and tells what happened. */
const ONLY = process.env.SEED;

/** `npm test` plays the first seeds of each style, `npm run test:heavy` the others. */
export const QUICK_SEEDS = { first: 1, last: 50 };
export const OTHER_SEEDS = { first: QUICK_SEEDS.last + 1, last: 500 };

export async function simulateAll(style: Style, { first, last }: typeof QUICK_SEEDS): Promise<void> {
  if (ONLY !== undefined) {
    const trace = await simulate(style, Number(ONLY), { isTraced: true });
    process.stdout.write(`${trace.join('\n')}\n`);
    return;
  }
  for (let seed = first; seed <= last; seed++) await simulate(style, seed);
}
