import type { WallTime, Zone } from '#core/base/zone.ts';
import { isoTime } from '#core/ports/clock.ts';
import { type Cron, localTimesAfter } from './cron.ts';

/** A local time that matches an expression. */
export interface Slot {
  readonly wall: WallTime;
  /** Epoch milliseconds; absent for a local time that a clock change skips, when nothing runs. */
  readonly instant?: number;
  /** Position among other slots, in epoch milliseconds. */
  readonly place: number;
  /** Offset from UTC in milliseconds. */
  readonly offset: number;
  /**
   * Effect of a clock change: `skipped`; `repeated`: the local time occurs twice and the first one runs; `changed`: the
   * first slot whose UTC offset differs from the previous one.
   */
  readonly dst: 'skipped' | 'repeated' | 'changed' | null;
}

const HOUR_MS = 3600_000;

/** Yields the slots after `after` and before `end` (epoch milliseconds) in order, and possibly a few later ones. */
export function* slotsAfter(cron: Cron, zone: Zone, after: number, end?: number): Generator<Slot> {
  let offset = zone.wallTime(after) - after;
  for (const { wall, instant } of localTimesAfter(cron, zone, after, end)) {
    if (instant === undefined) {
      yield { wall, place: wall - offset, offset, dst: 'skipped' };
      continue;
    }
    const before = offset;
    offset = wall - instant;
    const dst = isRepeated(zone, wall, instant) ? 'repeated' : offset === before ? null : 'changed';
    yield { wall, instant, place: instant, offset, dst };
  }
}

/** Returns whether clocks show this time again after `instant`. Clocks are set back by at most three hours. */
function isRepeated(zone: Zone, wall: WallTime, instant: number): boolean {
  if (!zone.isIrregular(wall)) return false;
  const later = instant + 4 * HOUR_MS;
  const second = wall - (zone.wallTime(later) - later);
  return second > instant && zone.wallTime(second) === wall;
}

/** Returns a slot in its API form. */
export const slotView = ({ wall, instant, offset, dst }: Slot) => ({
  at: instant === undefined ? null : isoTime(instant),
  local: new Date(wall).toISOString().slice(0, 16),
  utc_offset: offsetText(offset),
  dst,
});

function offsetText(offset: number): string {
  const minutes = Math.round(Math.abs(offset) / 60_000);
  const digits = (value: number): string => String(value).padStart(2, '0');
  return `${offset < 0 ? '-' : '+'}${digits(Math.floor(minutes / 60))}:${digits(minutes % 60)}`;
}
