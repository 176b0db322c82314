import { PlatformError } from './errors.ts';

/** Local date and time in a zone, encoded as the epoch milliseconds of the same date and time in UTC. */
export type WallTime = number;

const DAY_MS = 24 * 3600_000;
const MAX_REMEMBERED_DAYS = 10_000;
/** EventBridge's limit. */
const MAX_NAME_LENGTH = 50;

/** Common abbreviations, for a hint in the error. */
const ABBREVIATIONS: { readonly [name: string]: string } = {
  EST: 'America/New_York',
  EDT: 'America/New_York',
  CST: 'America/Chicago',
  CDT: 'America/Chicago',
  MST: 'America/Denver',
  MDT: 'America/Denver',
  PST: 'America/Los_Angeles',
  PDT: 'America/Los_Angeles',
  BST: 'Europe/London',
  CET: 'Europe/Berlin',
  CEST: 'Europe/Berlin',
  EET: 'Europe/Athens',
  MSK: 'Europe/Moscow',
  IST: 'Asia/Kolkata',
  JST: 'Asia/Tokyo',
  AEST: 'Australia/Sydney',
  GMT: 'UTC',
  Z: 'UTC',
};

/**
 * An IANA time zone. A local time that is skipped when clocks go forward has no instant; one that occurs twice when
 * they go back means the first occurrence, as in EventBridge Scheduler.
 */
export class Zone {
  readonly name: string;
  readonly #format: Intl.DateTimeFormat;
  /** Day of wall time -> offsets before and after it. They differ only near a clock change. */
  readonly #days = new Map<number, readonly [before: number, after: number]>();

  private constructor(name: string, format: Intl.DateTimeFormat) {
    this.name = name;
    this.#format = format;
  }

  static readonly #known = new Map<string, Zone>();

  /** Throws INVALID_INPUT unless `name` is an IANA name of a place, or `UTC`. Refuses abbreviations such as EST. */
  static of(name: string): Zone {
    const known = Zone.#known.get(name);
    if (known) return known;
    const format = isZoneName(name) ? formatOf(name) : undefined;
    if (format === undefined) throw new PlatformError('INVALID_INPUT', `timezone: ${problemWith(name)}`);
    const zone = new Zone(name, format);
    Zone.#known.set(name, zone);
    return zone;
  }

  wallTime(instant: number): WallTime {
    const [before, after] = this.#offsetsAround(instant);
    return instant + (before === after ? before : this.#offsetAt(instant));
  }

  /** Returns `undefined` for a local time that is skipped. */
  instantOf(wall: WallTime): number | undefined {
    const [before, after] = this.#offsetsAround(wall);
    return before === after ? wall - before : this.instantsOf(wall)[0];
  }

  /** Returns no instant for a skipped local time, and two in order for one that occurs twice. */
  instantsOf(wall: WallTime): number[] {
    const instants = [...new Set(this.#offsetsAround(wall))].map((offset) => wall - offset);
    return instants.sort((a, b) => a - b).filter((instant) => instant + this.#offsetAt(instant) === wall);
  }

  /** Converts a skipped local time to the time that clocks show after the change. */
  afterSkip(wall: WallTime): number {
    return wall - this.#offsetsAround(wall)[0];
  }

  /**
   * Formats an instant (epoch milliseconds) as RFC 3339 with the offset of the zone, to the second:
   * `2026-03-29T03:30:00+02:00`.
   */
  textOf(instant: number): string {
    const wall = this.wallTime(instant);
    const minutes = Math.round((wall - Math.floor(instant)) / 60_000);
    const digits = (value: number): string => String(value).padStart(2, '0');
    const offset = `${digits(Math.floor(Math.abs(minutes) / 60))}:${digits(Math.abs(minutes) % 60)}`;
    return `${new Date(wall).toISOString().slice(0, 19)}${minutes < 0 ? '-' : '+'}${offset}`;
  }

  /** Whether clocks change near this time, so that local times may be skipped or occur twice. */
  isIrregular(wall: WallTime): boolean {
    const [before, after] = this.#offsetsAround(wall);
    return before !== after;
  }

  #offsetsAround(time: number): readonly [number, number] {
    const day = Math.floor(time / DAY_MS);
    let offsets = this.#days.get(day);
    if (offsets === undefined) {
      // The window is wide enough for `time` to be an instant or a wall time.
      offsets = [this.#offsetAt((day - 1) * DAY_MS), this.#offsetAt((day + 2) * DAY_MS)];
      if (this.#days.size >= MAX_REMEMBERED_DAYS) this.#days.clear();
      this.#days.set(day, offsets);
    }
    return offsets;
  }

  /** Milliseconds ahead of UTC. */
  #offsetAt(instant: number): number {
    const parts = Object.fromEntries(
      this.#format.formatToParts(instant).map(({ type, value }) => [type, Number(value)]),
    );
    const { year, month, day, hour, minute, second } = parts as Record<string, number>;
    return Date.UTC(year!, month! - 1, day, hour, minute, second) - Math.floor(instant / 1000) * 1000;
  }
}

/** Accepts only IANA's spelling, as EventBridge does, and no offsets. */
const isZoneName = (name: string): boolean =>
  name === 'UTC' ||
  (name.length <= MAX_NAME_LENGTH &&
    /^[A-Z][A-Za-z]*(\/[A-Z][\w+-]*)+$/.test(name) &&
    !/[A-Z]{4}/.test(name) &&
    [name, undefined].includes(spellingOf(name)));

/** Returns IANA's spelling of a name in any case. Node does not resolve legacy aliases. */
const spellingOf = (name: string): string | undefined =>
  Intl.supportedValuesOf('timeZone').find((zone) => zone.toLowerCase() === name.toLowerCase());

function formatOf(timeZone: string): Intl.DateTimeFormat | undefined {
  const numbers = { year: 'numeric', month: 'numeric', day: 'numeric' } as const;
  const time = { hour: 'numeric', minute: 'numeric', second: 'numeric', hourCycle: 'h23' } as const;
  try {
    return new Intl.DateTimeFormat('en-US', { timeZone, ...numbers, ...time });
  } catch {
    return undefined;
  }
}

function problemWith(name: string): string {
  const shown = name.slice(0, MAX_NAME_LENGTH);
  const meant = ABBREVIATIONS[name.toUpperCase()];
  if (meant) return `"${shown}" is an abbreviation; name the place by its IANA identifier, such as ${meant}.`;
  const spelt = spellingOf(name);
  return `"${shown}" is not an IANA time zone${spelt ? `; it is written ${spelt}` : ', such as Europe/Berlin or UTC'}.`;
}
