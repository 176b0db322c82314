import { PlatformError } from '#core/base/errors.ts';
import type { Zone } from '#core/base/zone.ts';

/** RFC 3339 with optional seconds and offset. */
const MOMENT =
  /^(2\d{3}-\d\d-\d\d)[Tt ](\d\d:\d\d)(?::(\d\d)(?:\.\d{1,9})?)?(?:([Zz])|([+-])([01]\d|2[0-3]):([0-5]\d))?$/;

/**
 * Parses a moment into epoch milliseconds, to the second: RFC 3339, or without an offset a local time of `zone`
 * (`docs/interface/schedules.md#moment`). Throws INVALID_INPUT for anything else, and for a local time that does not
 * exist or exists twice; the error suggests what to send instead.
 */
export function momentOf(text: string, zone: Zone): number {
  const [, date, time, seconds = '00', utc, sign, hours, minutes] = MOMENT.exec(text) ?? [];
  const wall = date === undefined ? Number.NaN : Date.parse(`${date}T${time}:${seconds}Z`);
  // Date.parse accepts 30 February as 2 March.
  if (Number.isNaN(wall) || new Date(wall).toISOString().slice(0, 19) !== `${date}T${time}:${seconds}`) {
    throw refused(`is no time; send one such as 2026-03-29T01:30Z, or 2026-03-29T03:30 for a time in ${zone.name}.`);
  }
  if (utc !== undefined) return wall;
  if (sign !== undefined) return wall - Number(`${sign}1`) * (Number(hours) * 60 + Number(minutes)) * 60_000;
  const [first, second] = zone.instantsOf(wall);
  if (first === undefined) {
    const instead = zone.textOf(zone.afterSkip(wall));
    throw refused(`does not exist in ${zone.name}, where clocks go forward then; send ${instead} or another time.`);
  }
  if (second === undefined) return first;
  const [one, other] = [zone.textOf(first), zone.textOf(second)];
  throw refused(`exists twice in ${zone.name}, where clocks go back then; send ${one} or ${other}.`);
}

const refused = (problem: string): PlatformError =>
  new PlatformError('INVALID_INPUT', `query.scheduled_at: ${problem}`);
