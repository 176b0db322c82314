import { PlatformError } from './errors.ts';

/** A time as clocks on the wall show it, as if it were UTC: epoch milliseconds of the same date and hour there. */
export type WallTime = number;

const DAY_MS = 24 * 3600_000;
const MAX_REMEMBERED_DAYS = 10_000;
/** EventBridge's limit. */
const MAX_NAME_LENGTH = 50;

/** What people write who mean a place. */
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
 * An IANA time zone. A wall time that a zone leaves out when its clocks go forward has no instant; one that occurs twice
 * when they go back means the first: as EventBridge Scheduler has it, and so both hosts.
 */
export class Zone {
  readonly name: string;
  readonly #format: Intl.DateTimeFormat;
  /** Day (of wall times) -> offsets well before and well after it, which nearly always are the same. */
  readonly #days = new Map<number, readonly [before: number, after: number]>();

  private constructor(name: string, format: Intl.DateTimeFormat) {
    this.name = name;
    this.#format = format;
  }

  static readonly #known = new Map<string, Zone>();

  /** Throws INVALID_INPUT for what is no name of a place or `UTC`, such as the abbreviation EST. */
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

  /** `undefined` for what clocks there never show. */
  instantOf(wall: WallTime): number | undefined {
    const [before, after] = this.#offsetsAround(wall);
    if (before === after) return wall - before;
    const instants = [...new Set([before, after])].map((offset) => wall - offset);
    return instants.sort((a, b) => a - b).find((instant) => instant + this.#offsetAt(instant) === wall);
  }

  /** Whether clocks are changed near a time, so that times may be missing or occur twice. */
  isIrregular(wall: WallTime): boolean {
    const [before, after] = this.#offsetsAround(wall);
    return before !== after;
  }

  #offsetsAround(time: number): readonly [number, number] {
    const day = Math.floor(time / DAY_MS);
    let offsets = this.#days.get(day);
    if (offsets === undefined) {
      // Wide enough that it does not matter whether `time` is an instant or a wall time.
      offsets = [this.#offsetAt((day - 1) * DAY_MS), this.#offsetAt((day + 2) * DAY_MS)];
      if (this.#days.size >= MAX_REMEMBERED_DAYS) this.#days.clear();
      this.#days.set(day, offsets);
    }
    return offsets;
  }

  /** Milliseconds that clocks there are ahead of UTC. */
  #offsetAt(instant: number): number {
    const parts = Object.fromEntries(
      this.#format.formatToParts(instant).map(({ type, value }) => [type, Number(value)]),
    );
    const { year, month, day, hour, minute, second } = parts as Record<string, number>;
    return Date.UTC(year!, month! - 1, day, hour, minute, second) - Math.floor(instant / 1000) * 1000;
  }
}

/** As IANA writes names: EventBridge takes no others, and knows no offsets. */
const isZoneName = (name: string): boolean =>
  name === 'UTC' ||
  (name.length <= MAX_NAME_LENGTH &&
    /^[A-Z][A-Za-z]*(\/[A-Z][\w+-]*)+$/.test(name) &&
    !/[A-Z]{4}/.test(name) &&
    [name, undefined].includes(spellingOf(name)));

/** How IANA writes what is meant, whatever its case; of names that it keeps for old times' sake, Node does not tell. */
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
  return `"${shown}" is no IANA time zone${spelt ? `; it is written ${spelt}` : ', such as Europe/Berlin or UTC'}.`;
}
