const UNITS = ['KB', 'MB', 'GB', 'TB'];

/**
 * Formats `1,000,000`. The first use of `Intl` in a process takes 20 ms, more than a third of a function's cold start.
 */
export const countText = (count: number): string => String(count).replaceAll(/\B(?<!\.\d*)(?=(\d{3})+(?!\d))/g, ',');

/** Formats `950 bytes` or `1.5 MB`, by powers of 1024. */
export function sizeText(bytes: number): string {
  let [amount, unit] = [bytes, 'bytes'];
  for (const next of UNITS) {
    if (amount < 1024) break;
    [amount, unit] = [amount / 1024, next];
  }
  return `${countText(Number(amount.toFixed(1)))} ${unit}`;
}
