import { dayOf } from '#core/ports/clock.ts';

const DAY_MS = 24 * 3600 * 1000;

/** A number of UTC days, up to now. */
export interface Period {
  /** Epoch milliseconds: the midnight before the first day, and now. */
  readonly start: number;
  readonly end: number;
  /** Days such as `2026-11-21`, ascending; the last one is today. */
  readonly days: readonly string[];
}

/** The last `count` UTC days, including today. */
export function lastDays(now: number, count: number): Period {
  const today = Math.floor(now / DAY_MS) * DAY_MS;
  const start = today - (count - 1) * DAY_MS;
  const days = Array.from({ length: count }, (_, index) => dayOf(start + index * DAY_MS));
  return { start, end: now, days };
}

export const monthOf = (day: string): string => day.slice(0, 7);
