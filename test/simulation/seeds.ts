import { type Style, simulate } from './scenario.ts';

/** `SEED=17 npx vitest run test/simulation/local.test.ts` plays that one only, and tells what happened. */
const ONLY = process.env.SEED;

export async function simulateAll(style: Style, seeds: number): Promise<void> {
  if (ONLY !== undefined) {
    const trace = await simulate(style, Number(ONLY), { isTraced: true });
    process.stdout.write(`${trace.join('\n')}\n`);
    return;
  }
  for (let seed = 1; seed <= seeds; seed++) await simulate(style, seed);
}
