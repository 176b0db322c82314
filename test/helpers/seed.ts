/**
 * The seed of all random values of a run of tests: `FC_SEED`, or another one each time. It is printed, so that a failure can be played again; a
 * second try of a test draws the same values.
 */
export default function chooseSeed(): void {
  process.env.FC_SEED ??= String(Date.now() % 2 ** 31);
  console.log(`FC_SEED=${process.env.FC_SEED} plays the same random values again.`);
}

export const seedOfRun = (): number => Number(process.env.FC_SEED ?? 1);
