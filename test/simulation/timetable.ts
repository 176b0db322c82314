const MINUTE_MS = 60_000;
const HALF_HOUR_MS = 30 * MINUTE_MS;
/** Upper bound on the pause between two minutes of a simulated schedule. */
const HORIZON_MS = 15 * 24 * 60 * MINUTE_MS;

/**
 * Minutes of a cron expression, found by checking every minute of the zone's clock, without code of `core/automation`.
 * Supports numbers, lists, ranges and steps.
 */
export class Timetable {
  static readonly #known = new Map<string, Timetable>();

  static of(expression: string, zone: string): Timetable {
    const name = `${expression} ${zone}`;
    const known = Timetable.#known.get(name) ?? new Timetable(expression, zone);
    Timetable.#known.set(name, known);
    return known;
  }

  readonly #zone: string;
  readonly #fields: readonly Set<number>[];
  readonly #isEither: boolean;

  private constructor(expression: string, zone: string) {
    this.#zone = zone;
    const texts = expression.split(' ');
    const ends = [59, 23, 31, 12, 7];
    this.#fields = texts.map((text, i) => new Set(text.split(',').flatMap((part) => valuesOf(part, ends[i]!))));
    this.#isEither = !texts[2]!.startsWith('*') && !texts[4]!.startsWith('*');
  }

  /** Returns whether this instant matches; of two instants with the same local time, only the first does. */
  names(instant: number): boolean {
    const shown = instant + offsetOf(this.#zone, instant);
    if (instant % MINUTE_MS !== 0 || !this.#matches(new Date(shown))) return false;
    // Clocks are set back by at most one hour.
    for (let back = HALF_HOUR_MS; back <= 2 * HALF_HOUR_MS; back += HALF_HOUR_MS) {
      if (instant - back + offsetOf(this.#zone, instant - back) === shown) return false;
    }
    return true;
  }

  /** Returns the first minute after `after`. */
  next(after: number): number {
    const first = Math.floor(after / MINUTE_MS) * MINUTE_MS + MINUTE_MS;
    for (let minute = first; minute < first + HORIZON_MS; minute += MINUTE_MS) if (this.names(minute)) return minute;
    throw new Error('this expression is too rare for a simulation');
  }

  /** Returns the minutes from `from` to before `to`. */
  between(from: number, to: number): number[] {
    const minutes: number[] = [];
    for (let minute = this.next(from - 1); minute < to; minute = this.next(minute)) minutes.push(minute);
    return minutes;
  }

  #matches(clock: Date): boolean {
    const [minutes, hours, dates, months, weekdays] = this.#fields as [
      Set<number>,
      Set<number>,
      Set<number>,
      Set<number>,
      Set<number>,
    ];
    const isTime = minutes.has(clock.getUTCMinutes()) && hours.has(clock.getUTCHours());
    if (!isTime || !months.has(clock.getUTCMonth() + 1)) return false;
    const isDate = dates.has(clock.getUTCDate());
    const isWeekday = weekdays.has(clock.getUTCDay()) || (clock.getUTCDay() === 0 && weekdays.has(7));
    return this.#isEither ? isDate || isWeekday : isDate && isWeekday;
  }
}

function valuesOf(part: string, end: number): number[] {
  const [range, step = '1'] = part.split('/') as [string, string?];
  const [from, to] = range === '*' ? [0, end] : range.split('-').map(Number);
  const last = to ?? (part.includes('/') ? end : from!);
  const values: number[] = [];
  for (let value = from!; value <= last; value += Number(step)) values.push(value);
  return values;
}

const offsets = new Map<string, number>();
const formats = new Map<string, Intl.DateTimeFormat>();

/** Returns the offset from UTC in milliseconds; all zones change it on a half hour of UTC. */
function offsetOf(zone: string, instant: number): number {
  const half = Math.floor(instant / HALF_HOUR_MS);
  const name = `${zone} ${half}`;
  const known = offsets.get(name);
  if (known !== undefined) return known;
  const format = formats.get(zone) ?? new Intl.DateTimeFormat('en', { timeZone: zone, timeZoneName: 'longOffset' });
  formats.set(zone, format);
  const text = format.formatToParts(half * HALF_HOUR_MS).find(({ type }) => type === 'timeZoneName')!.value;
  const [, sign, hours, minutes] = /^GMT(?:([+-])(\d\d):(\d\d))?$/.exec(text)!;
  const offset = sign === undefined ? 0 : Number(`${sign}1`) * (Number(hours) * 60 + Number(minutes)) * MINUTE_MS;
  offsets.set(name, offset);
  return offset;
}
