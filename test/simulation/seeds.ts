import { type Style, simulate } from './scenario.ts';

/** Limits the simulation to one seed and logs its events: `SEED=17 npx vitest run test/simulation/local.test.ts`. */
const ONLY = process.env.SEED;

/** Seeds of each style in `npm test`; `npm run test:heavy` runs the others. */
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
