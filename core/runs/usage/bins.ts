/**
 * Histograms with bins that grow by a constant factor: roll-ups add them up, and a percentile over any number of
 * roll-ups
 * follows from the sums.
 *
 * Bin 0 is less than 1; bin `i` begins at `2^((i - 1) / perOctave)`.
 */
export const binOf = (amount: number, perOctave: number): number =>
  amount < 1 ? 0 : 1 + Math.floor(perOctave * Math.log2(amount));

/**
 * Returns a percentile, with `share` from 0 to 1: the midpoint of the bin that contains the run of this rank, at most a
 * factor of `2^(1 / (2 * perOctave))` away from that run. 0 without runs.
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
