import type { Row } from './harness.ts';

/** The result of a row in numbers. */
export interface Figure {
  readonly what: string;
  readonly figure: number;
  /** What follows the number: `x`, `of it`, `ms`. */
  readonly unit: string;
  readonly better: 'more' | 'less';
  /** By which part of the figure a new run may be worse: noise. */
  readonly tolerance: number;
}

/** A figure that is worse than the committed one by more than its tolerance. */
export interface Regression {
  readonly now: Figure;
  readonly before: Figure;
}

/**
 * Counts and sizes are the same on every machine. Ratios are of two sides that ran in turn: a busy machine slows both. Times
 * and shares of a processor are of one machine, and of how busy it was.
 */
const TOLERANCES = { count: 0, size: 0.05, ratio: 0.25, memory: 0.25, time: 1 };

/** By what follows the number; everything else is a time. */
const KINDS: readonly [RegExp, keyof typeof TOLERANCES][] = [
  [/^(?:x\b|of )/, 'ratio'],
  [/^KB/, 'size'],
  [/^MB/, 'memory'],
  [/^(?:,|$)/, 'count'],
];

/**
 * The figure of a row is the number that its result begins with; its bound says whether more is better. `undefined` if the
 * result is no number, as without an installed peer.
 */
export function figureOf({ what, result, bound, tolerance }: Row): Figure | undefined {
  const [, number, unit = ''] = /^(-?[\d.]+) ?(.*)$/s.exec(result) ?? [];
  if (number === undefined) return undefined;
  const kind = KINDS.find(([pattern]) => pattern.test(unit))?.[1] ?? 'time';
  return {
    // The size of a bundle is a row of its own.
    what: what.replace(/ \(\d+ KB\)$/, ''),
    figure: Number(number),
    unit,
    better: /^(?:at least|no slower)/.test(bound) ? 'more' : 'less',
    tolerance: tolerance ?? TOLERANCES[kind],
  };
}

export const figuresOf = (rows: readonly Row[]): Figure[] =>
  rows.map(figureOf).filter((figure) => figure !== undefined);

/** Figures that got worse than the committed ones by more than noise. New rows have nothing to be compared with. */
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
