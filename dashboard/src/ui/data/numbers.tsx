const COUNT = new Intl.NumberFormat('en-US');
const SHORT = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 });

/** "12,345". */
export const count = (value: number): string => COUNT.format(value);
/** "12.3K". */
export const shortCount = (value: number): string => SHORT.format(value);
/** Formats a share as "12.3%"; a dash if the whole is 0. */
export const percent = (part: number, whole: number): string =>
  whole === 0 ? '–' : `${((100 * part) / whole).toFixed(part === whole || part === 0 ? 0 : 1)}%`;

/** "1.4 MB". */
export function bytes(value: number): string {
  if (value < 1000) return `${value} B`;
  const step = Math.min(3, Math.floor(Math.log10(value) / 3));
  return `${(value / 1000 ** step).toFixed(1)} ${['B', 'kB', 'MB', 'GB'][step]}`;
}

/** Formats dollars with enough digits for small prices: "$12.30", "$0.000214". */
export function usd(value: number): string {
  if (value === 0) return '$0';
  const digits = Math.abs(value) >= 1 ? 2 : Math.min(8, 2 - Math.floor(Math.log10(Math.abs(value))));
  return `$${value.toFixed(digits)}`;
}

/** An amount of money with its unit. */
export function Money({ usd: value }: { readonly usd: number | null | undefined }) {
  if (value === null || value === undefined) return <span className="text-soft">–</span>;
  return <span className="whitespace-nowrap">{usd(value)}</span>;
}

/** Credits, in dollars. */
export function Credits({ cents }: { readonly cents: number }) {
  return <span className="whitespace-nowrap">${(cents / 100).toFixed(2)}</span>;
}
