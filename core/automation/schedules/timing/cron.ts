import { PlatformError } from '#core/base/errors.ts';
import type { WallTime, Zone } from '#core/base/zone.ts';

/** One field of an expression. */
export interface CronField {
  /** Ascending. */
  readonly values: readonly number[];
  /** Whether the field matches every value of its range. */
  readonly isFull: boolean;
  /** Whether the field begins with `*`, alone or with a step: see {@link Cron.isEither}. */
  readonly isStar: boolean;
}

/** A five-field Unix cron expression. Own code, because croner's rule for the two day fields differs from Vixie's cron. */
export interface Cron {
  readonly expression: string;
  readonly minutes: CronField;
  readonly hours: CronField;
  readonly daysOfMonth: CronField;
  readonly months: CronField;
  /** 0 is Sunday. */
  readonly daysOfWeek: CronField;
  /**
   * Whether a match of one of the two day fields is enough. As in Vixie cron, this is the case if neither begins with
   * `*`.
   */
  readonly isEither: boolean;
}

interface FieldRule {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  readonly names?: readonly string[];
}

const MONTH_NAMES = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC'];
const DAY_NAMES = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'];
const RULES: readonly FieldRule[] = [
  { name: 'minute', min: 0, max: 59 },
  { name: 'hour', min: 0, max: 23 },
  { name: 'day of month', min: 1, max: 31 },
  { name: 'month', min: 1, max: 12, names: MONTH_NAMES },
  { name: 'day of week', min: 0, max: 7, names: DAY_NAMES },
];
const MACROS: { readonly [name: string]: string } = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
};

export const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const MAX_LENGTH = 200;
const MAX_MONTH_DAYS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
/** 29 February falls on a given weekday every 28 years, or after 40 across a century that is not a leap year. */
const HORIZON_DAYS = 41 * 366;
/** Maximum time by which clocks are set back. */
const LONGEST_REPEAT_MS = 3 * 3600_000;

/**
 * Parses an expression. Throws INVALID_INPUT with the cause and a correct example, also for an expression that never
 * occurs.
 */
export function parseCron(expression: string): Cron {
  const text = expression.trim();
  if (text.length > MAX_LENGTH)
    throw wrong(text, `it has ${text.length} characters, at most ${MAX_LENGTH} are allowed`);
  const macro = MACROS[text.toLowerCase()];
  if (macro) throw wrong(text, `it must have five fields; write "${macro}"`);
  const fields = text.split(/\s+/);
  if (fields.length !== 5) {
    const seconds = fields.length === 6 ? ' There are no seconds and no years.' : '';
    throw wrong(
      text,
      `it has ${text === '' ? 0 : fields.length} fields and must have five: minute, hour, day of month, month, day of week. "30 9 * * 1-5" is 9:30 from Monday to Friday.${seconds}`,
    );
  }
  const [minutes, hours, daysOfMonth, months, weekdays] = fields.map((field, i) => parseField(text, field, RULES[i]!));
  const daysOfWeek = withSundayAsZero(weekdays!);
  const isEither = !daysOfMonth!.isStar && !daysOfWeek.isStar;
  const cron: Cron = {
    expression: fields.join(' '),
    minutes: minutes!,
    hours: hours!,
    daysOfMonth: daysOfMonth!,
    months: months!,
    daysOfWeek,
    isEither,
  };
  checkOccurs(cron);
  return cron;
}

const wrong = (text: string, why: string): PlatformError =>
  new PlatformError(
    'INVALID_INPUT',
    `cron_expression: "${text.slice(0, MAX_LENGTH)}": ${why}${/[.]$/.test(why) ? '' : '.'}`,
  );

function parseField(text: string, field: string, rule: FieldRule): CronField {
  const named = new Set<number>();
  for (const part of field.split(',')) for (const value of parsePart(text, part, rule)) named.add(value);
  const values = [...named].sort((a, b) => a - b);
  return { values, isFull: values.length === rule.max - rule.min + 1, isStar: field.startsWith('*') };
}

/** Parses `*`, `a` and `a-b`, each with an optional `/n`; `a/n` continues to the end of the field. */
function parsePart(text: string, part: string, rule: FieldRule): number[] {
  const { name, min, max } = rule;
  const [, range = '', step] = /^([^/]+)(?:\/(\d{1,4}))?$/.exec(part) ?? [];
  const [from, to, ...more] = range.split('-');
  if (from === undefined || from === '' || to === '' || more.length > 0) {
    throw wrong(text, `the ${name} "${part}" cannot be read; a ${name} is *, 5, 1-5, */5, or a list of these: 1,3-5`);
  }
  const every = Number(step ?? 1);
  if (every === 0) throw wrong(text, `the step of the ${name} "${part}" must be at least 1`);
  const first = from === '*' ? min : parseValue(text, from, rule);
  const end = Math.max(first, lastOf(rule));
  const last = to !== undefined ? parseValue(text, to, rule) : from === '*' || step !== undefined ? end : first;
  if (from === '*' && to !== undefined)
    throw wrong(text, `the ${name} "${part}" cannot be read; write * or a range such as ${min}-${max}`);
  if (first > last) {
    throw wrong(text, `the ${name} "${part}" runs backwards; write it as two: ${upTo(first, end)},${upTo(min, last)}`);
  }
  const values: number[] = [];
  for (let value = first; value <= last; value += every) values.push(value);
  return values;
}

/** Sunday may be written as 7, but `*` and `5/2` end on Saturday. */
const lastOf = ({ max, names }: FieldRule): number => (names === DAY_NAMES ? max - 1 : max);
const upTo = (first: number, last: number): string => (first === last ? String(first) : `${first}-${last}`);

function parseValue(text: string, word: string, { name, min, max, names }: FieldRule): number {
  const index = names?.indexOf(word.toUpperCase()) ?? -1;
  if (index >= 0) return index + min;
  const value = /^\d{1,4}$/.test(word) ? Number(word) : Number.NaN;
  if (value >= min && value <= max) return value;
  const allowed = `${min}-${max}${names ? ` or ${names[0]}-${names.at(-1)}` : ''}`;
  throw wrong(text, `the ${name} "${word}" is not allowed; it may be ${allowed}`);
}

function withSundayAsZero({ values, isStar }: CronField): CronField {
  const days = [...new Set(values.map((day) => day % 7))].sort((a, b) => a - b);
  return { values: days, isFull: days.length === 7, isStar };
}

/** Throws for a day that does not exist in any of the months. Days of the week occur in every month. */
function checkOccurs(cron: Cron): void {
  const { daysOfMonth, months, expression } = cron;
  if (cron.isEither || daysOfMonth.isFull) return;
  const occurs = months.values.some((month) => daysOfMonth.values[0]! <= MAX_MONTH_DAYS[month - 1]!);
  if (occurs) return;
  const month = months.values.map((value) => MONTH_NAMES[value - 1]).join(', ');
  const last = Math.max(...months.values.map((value) => MAX_MONTH_DAYS[value - 1]!));
  throw wrong(
    expression,
    `it never occurs: ${month} has no day ${daysOfMonth.values[0]}. "0 0 ${last} ${months.values[0]} *" is the last day there`,
  );
}

/** Returns the first matching instant after `after`, in epoch milliseconds. */
export function nextTime(cron: Cron, zone: Zone, after: number): number | undefined {
  for (const { instant } of localTimesAfter(cron, zone, after)) if (instant !== undefined) return instant;
  return undefined;
}

/**
 * Yields the matching local times after `after` (epoch milliseconds) and before `end`, plus some of the next two days.
 * Skipped times have no instant.
 */
export function* localTimesAfter(
  cron: Cron,
  zone: Zone,
  after: number,
  end = Number.POSITIVE_INFINITY,
): Generator<{ readonly wall: WallTime; readonly instant: number | undefined }> {
  // Instants rise with wall times, so an earlier wall time cannot follow `after`.
  const from = Math.floor(zone.wallTime(after) / MINUTE_MS) * MINUTE_MS + MINUTE_MS;
  for (const wall of wallTimesFrom(cron, from, end + 2 * DAY_MS)) {
    const instant = zone.instantOf(wall);
    if (instant === undefined || instant > after) yield { wall, instant };
  }
}

/** Returns the last matching instant up to and including `until`, in epoch milliseconds. */
export function previousTime(cron: Cron, zone: Zone, until: number): number | undefined {
  const wall = Math.floor(zone.wallTime(until) / MINUTE_MS) * MINUTE_MS;
  // While clocks repeat an hour, later wall times may have passed already.
  const from = zone.isIrregular(wall) ? wall + LONGEST_REPEAT_MS : wall;
  for (const candidate of wallTimesUntil(cron, from)) {
    const instant = zone.instantOf(candidate);
    if (instant !== undefined && instant <= until) return instant;
  }
  return undefined;
}

/** Returns whether an expression matches exactly this instant. */
export function occursAt(cron: Cron, zone: Zone, instant: number): boolean {
  const wall = zone.wallTime(instant);
  const date = new Date(wall);
  return (
    wall % MINUTE_MS === 0 &&
    cron.minutes.values.includes(date.getUTCMinutes()) &&
    cron.hours.values.includes(date.getUTCHours()) &&
    namesDay(cron, date) &&
    zone.instantOf(wall) === instant
  );
}

function namesDay({ daysOfMonth, months, daysOfWeek, isEither }: Cron, date: Date): boolean {
  if (!months.values.includes(date.getUTCMonth() + 1)) return false;
  const inMonth = daysOfMonth.values.includes(date.getUTCDate());
  const inWeek = daysOfWeek.values.includes(date.getUTCDay());
  return isEither ? inMonth || inWeek : inMonth && inWeek;
}

function* wallTimesFrom(cron: Cron, from: WallTime, until: WallTime): Generator<WallTime> {
  const firstDay = Math.floor(from / DAY_MS) * DAY_MS;
  const end = Math.min(until, firstDay + HORIZON_DAYS * DAY_MS);
  for (let day = firstDay; day < end; day += DAY_MS) {
    if (!namesDay(cron, new Date(day))) continue;
    for (const hour of cron.hours.values) {
      if (day + (hour + 1) * 60 * MINUTE_MS <= from) continue;
      for (const minute of cron.minutes.values) {
        const wall = day + (hour * 60 + minute) * MINUTE_MS;
        if (wall >= from) yield wall;
      }
    }
  }
}

function* wallTimesUntil(cron: Cron, until: WallTime): Generator<WallTime> {
  const lastDay = Math.floor(until / DAY_MS) * DAY_MS;
  for (let day = lastDay; day > lastDay - HORIZON_DAYS * DAY_MS; day -= DAY_MS) {
    if (!namesDay(cron, new Date(day))) continue;
    for (const hour of backwards(cron.hours.values)) {
      if (day + hour * 60 * MINUTE_MS > until) continue;
      for (const minute of backwards(cron.minutes.values)) {
        const wall = day + (hour * 60 + minute) * MINUTE_MS;
        if (wall <= until) yield wall;
      }
    }
  }
}

/** Iterates without a copy, because each due schedule asks for its previous minute. */
function* backwards(values: readonly number[]): Generator<number> {
  for (let index = values.length - 1; index >= 0; index--) yield values[index]!;
}
