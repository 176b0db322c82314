/**
 * Sets the seed of all random values of a test run: `FC_SEED`, or a new one each time. It is printed for replays; a
 * retried test draws the same values.
 */
export default function chooseSeed(): void {
  process.env.FC_SEED ??= String(Date.now() % 2 ** 31);
  console.log(`FC_SEED=${process.env.FC_SEED} plays the same random values again.`);
}

export const seedOfRun = (): number => Number(process.env.FC_SEED ?? 1);
