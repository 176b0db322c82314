import { dayOf } from '#core/ports/clock.ts';

const DAY_MS = 24 * 3600 * 1000;

/** A number of UTC days. */
export interface Period {
  /** Epoch milliseconds: the midnight before the first day, and a moment of the last one. */
  readonly start: number;
  readonly end: number;
  /** Days such as `2026-11-21`, ascending. */
  readonly days: readonly string[];
}

/** The last `count` UTC days, including today. */
export const lastDays = (now: number, count: number): Period => daysBetween(now - (count - 1) * DAY_MS, now);

/** The UTC days from the one of `from` to the one of `end`, which is not before. Epoch milliseconds. */
export function daysBetween(from: number, end: number): Period {
  const start = Math.floor(from / DAY_MS) * DAY_MS;
  const count = Math.floor((end - start) / DAY_MS) + 1;
  return { start, end, days: Array.from({ length: count }, (_, index) => dayOf(start + index * DAY_MS)) };
}

export const monthOf = (day: string): string => day.slice(0, 7);
