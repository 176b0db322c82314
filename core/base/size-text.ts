const UNITS = ['KB', 'MB', 'GB', 'TB'];

/** `950 bytes`, `1.5 MB`: by powers of 1024. */
export function sizeText(bytes: number): string {
  let [amount, unit] = [bytes, 'bytes'];
  for (const next of UNITS) {
    if (amount < 1024) break;
    [amount, unit] = [amount / 1024, next];
  }
  return `${Number(amount.toFixed(1)).toLocaleString('en')} ${unit}`;
}
