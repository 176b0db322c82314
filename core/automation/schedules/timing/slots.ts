import type { WallTime, Zone } from '#core/base/zone.ts';
import { isoTime } from '#core/ports/clock.ts';
import { type Cron, localTimesAfter } from './cron.ts';

/** A local time that an expression names. */
export interface Slot {
  readonly wall: WallTime;
  /** Epoch milliseconds; absent for a local time that clocks leave out when they go forward: nothing runs. */
  readonly instant?: number;
  /** Where it stands among other slots, in epoch milliseconds. */
  readonly place: number;
  /** Milliseconds ahead of UTC. */
  readonly offset: number;
  /**
   * What a change of clocks does to it: `skipped`; `repeated`: the local time comes twice and the first one runs; `changed`: the
   * first slot with another offset than the one before.
   */
  readonly dst: 'skipped' | 'repeated' | 'changed' | null;
}

const HOUR_MS = 3600_000;

/** The slots after `after` and before `end` (epoch milliseconds), in their order, and perhaps a few later ones. */
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

/** Whether clocks show this time a second time after `instant`. They are set back by at most three hours. */
function isRepeated(zone: Zone, wall: WallTime, instant: number): boolean {
  if (!zone.isIrregular(wall)) return false;
  const later = instant + 4 * HOUR_MS;
  const second = wall - (zone.wallTime(later) - later);
  return second > instant && zone.wallTime(second) === wall;
}

/** A slot as the API answers it. */
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
