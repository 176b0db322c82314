/**
 * Amounts as numbers of runs in bins that grow by a constant factor: a roll-up adds them up, and a percentile of any number of
 * roll-ups follows from the sums.
 *
 * Bin 0 is less than 1; bin `i` begins at `2^((i - 1) / perOctave)`.
 */
export const binOf = (amount: number, perOctave: number): number =>
  amount < 1 ? 0 : 1 + Math.floor(perOctave * Math.log2(amount));

/**
 * The amount that a part of the runs does not exceed, `share` from 0 to 1: the middle of the bin that has the run of this
 * rank, which is at most a factor of `2^(1 / (2 * perOctave))` away from that run. 0 without runs.
 */
export function percentile(bins: ReadonlyMap<number, number>, share: number, perOctave: number): number {
  const runs = bins.values().reduce((sum, count) => sum + count, 0);
  const rank = Math.max(1, Math.ceil(share * runs));
  let seen = 0;
  for (const [bin, count] of [...bins].sort(([a], [b]) => a - b)) {
    seen += count;
    if (seen >= rank) return bin === 0 ? 0 : 2 ** ((bin - 0.5) / perOctave);
  }
  return 0;
}
