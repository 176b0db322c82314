import type { Row } from './harness.ts';

/** Numeric result of a row. */
export interface Figure {
  readonly what: string;
  readonly figure: number;
  /** Unit after the number: `x`, `of it`, `ms`. */
  readonly unit: string;
  readonly better: 'more' | 'less';
  /** Relative tolerance within which a worse run counts as noise. */
  readonly tolerance: number;
}

/** Figure that is worse than the committed one by more than its tolerance. */
export interface Regression {
  readonly now: Figure;
  readonly before: Figure;
}

/**
 * Tolerances by kind. Counts and sizes are the same on every machine. Ratios compare two alternating sides, which a
 * busy machine slows alike. Times and CPU shares depend on the machine and its load.
 */
const TOLERANCES = { count: 0, size: 0.05, ratio: 0.25, memory: 0.25, time: 1 };

/** Tolerance by the unit after the number; without a unit here, the figure is a time. */
const KINDS: readonly [RegExp, keyof typeof TOLERANCES][] = [
  [/^(?:x\b|of )/, 'ratio'],
  [/^KB/, 'size'],
  [/^MB/, 'memory'],
  [/^(?:,|$)/, 'count'],
];

/**
 * Returns the number at the start of a row's result; its bound says whether more is better. Returns `undefined` if the
 * result has no number, as for a peer that is not installed.
 */
export function figureOf({ what, result, bound, tolerance }: Row): Figure | undefined {
  const [, number, unit = ''] = /^(-?[\d.]+) ?(.*)$/s.exec(result) ?? [];
  if (number === undefined) return undefined;
  const kind = KINDS.find(([pattern]) => pattern.test(unit))?.[1] ?? 'time';
  return {
    // The size of a bundle has its own row.
    what: what.replace(/ \(\d+ KB\)$/, ''),
    figure: Number(number),
    unit,
    better: /^(?:at least|no slower)/.test(bound) ? 'more' : 'less',
    tolerance: tolerance ?? TOLERANCES[kind],
  };
}

export const figuresOf = (rows: readonly Row[]): Figure[] =>
  rows.map(figureOf).filter((figure) => figure !== undefined);

/** Returns the figures that are worse than the committed ones by more than noise. New rows are skipped. */
export function regressionsOf(rows: readonly Figure[], committed: readonly Figure[]): Regression[] {
  return rows.flatMap((now) => {
    const before = committed.find(({ what }) => what === now.what);
    if (before === undefined) return [];
    const worse = now.better === 'more' ? before.figure - now.figure : now.figure - before.figure;
    return worse > Math.abs(before.figure) * before.tolerance ? [{ now, before }] : [];
  });
}

export const describeRegression = ({ now, before }: Regression): string => {
  const percent = Math.round(before.tolerance * 100);
  return `${now.what}: ${now.figure} ${now.unit}, was ${before.figure} (${now.better} is better, up to ${percent}% is noise)`;
};
