import { dayOf } from '#core/ports/clock.ts';

const DAY_MS = 24 * 3600 * 1000;

/** A range of UTC days. */
export interface Period {
  /** Epoch milliseconds: the midnight before the first day, and a time on the last one. */
  readonly start: number;
  readonly end: number;
  /** Days such as `2026-11-21`, ascending. */
  readonly days: readonly string[];
}

/** Returns the last `count` UTC days, including today. */
export const lastDays = (now: number, count: number): Period => daysBetween(now - (count - 1) * DAY_MS, now);

/** Returns the UTC days from the day of `from` to the day of `end`, which must not be earlier. Epoch milliseconds. */
export function daysBetween(from: number, end: number): Period {
  const start = Math.floor(from / DAY_MS) * DAY_MS;
  const count = Math.floor((end - start) / DAY_MS) + 1;
  return { start, end, days: Array.from({ length: count }, (_, index) => dayOf(start + index * DAY_MS)) };
}

export const monthOf = (day: string): string => day.slice(0, 7);
