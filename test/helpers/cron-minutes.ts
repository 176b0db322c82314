import fc from 'fast-check';
import { expect } from 'vitest';
import { toAwsCrons } from '#core/automation/schedules/timing/aws-cron.ts';
import { nextTime, occursAt, parseCron } from '#core/automation/schedules/timing/cron.ts';
import { Zone } from '#core/base/zone.ts';

/**
 * Independent evaluator of the rules that AWS documents for EventBridge Scheduler: six fields, exactly one day field is
 * `?`, no range with a step; skipped local times do not fire, and repeated local times fire once.
 */
const START = Date.UTC(2026, 0, 1);
const MINUTE = 60_000;
const MINUTES = (Date.UTC(2030, 0, 1) - START) / MINUTE;
/** Time zones with half-hour and quarter-hour offsets, unusual daylight saving changes, and zones without any. */
const ZONES = [
  'UTC',
  'Africa/Cairo',
  'Africa/Casablanca',
  'America/Havana',
  'America/New_York',
  'America/Santiago',
  'America/Sao_Paulo',
  'America/St_Johns',
  'Antarctica/Troll',
  'Asia/Gaza',
  'Asia/Kathmandu',
  'Asia/Kolkata',
  'Asia/Tehran',
  'Australia/Lord_Howe',
  'Europe/Berlin',
  'Europe/Dublin',
  'Pacific/Auckland',
  'Pacific/Chatham',
];

/** Returns the local minute since the epoch for each minute since START; -1 for a local time that occurred before. */
function localMinutes(timeZone: string): Int32Array {
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short', timeStyle: 'medium' });
  const offsetAt = (i: number): number => {
    const instant = START + i * MINUTE;
    return (Date.parse(`${format.format(instant).replace(' ', 'T')}Z`) - instant) / MINUTE;
  };
  const table = new Int32Array(MINUTES);
  let latest = 0;
  let offset = offsetAt(0);
  let isRegular = false;
  for (let i = 0; i < MINUTES; i++) {
    if (i % 1440 === 0) isRegular = offsetAt(i) === offset && offsetAt(i + 1440) === offset;
    // Zones change their offset at full quarters of an hour.
    if (!isRegular && i % 15 === 0) offset = offsetAt(i);
    const local = START / MINUTE + i + offset;
    table[i] = local > latest ? local : -1;
    latest = Math.max(latest, local);
  }
  return table;
}

const DAYS = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'];
const number = (text: string): number => (DAYS.includes(text) ? DAYS.indexOf(text) : Number(text));

function field(text: string, min: number, max: number): boolean[] {
  const named: boolean[] = Array(max + 1).fill(false);
  for (const part of text.split(',')) {
    expect(part).toMatch(/^(\*|\w+|\w+-\w+|\w+\/\w+)$/);
    const [range = '', step] = part.split('/');
    const [from = '', to] = range.split('-');
    const first = from === '*' ? min : number(from);
    const last = to ? number(to) : from === '*' || step ? max : first;
    expect([first >= min, first <= last, last <= max]).toEqual([true, true, true]);
    for (let value = first; value <= last; value += Number(step ?? 1)) named[value] = true;
  }
  return named;
}

/** Marks the minutes that an expression names. */
function mark(expression: string, local: Int32Array, marks: Uint8Array): void {
  const [, text] = /^cron\((.+)\)$/.exec(expression)!;
  const [minutes, hours, dom, months, dow, year] = text!.split(' ') as [string, string, string, string, string, string];
  expect(year).toBe('*');
  expect([dom, dow].filter((each) => each === '?')).toHaveLength(1);
  expect(expression.length).toBeLessThanOrEqual(256);
  const isMinute = field(minutes, 0, 59);
  const isHour = field(hours, 0, 23);
  const isMonth = field(months, 1, 12);
  const isDom = dom === '?' ? undefined : field(dom, 1, 31);
  const isDow = dow === '?' ? undefined : field(dow, 0, 6);
  let day = -1;
  let isDay = false;
  for (let i = 0; i < MINUTES; i++) {
    const at = local[i]!;
    if (at < 0) continue;
    const today = Math.floor(at / 1440);
    if (today !== day) {
      day = today;
      const date = new Date(day * 1440 * MINUTE);
      isDay = isMonth[date.getUTCMonth() + 1]! && (isDom ? isDom[date.getUTCDate()]! : isDow![date.getUTCDay()]!);
    }
    if (isDay && isHour[Math.floor((at % 1440) / 60)] && isMinute[at % 60]) marks[i]!++;
  }
}

const part = (min: number, max: number) =>
  fc.oneof(
    fc.integer({ min, max }).map(String),
    fc.tuple(fc.integer({ min, max }), fc.integer({ min, max })).map(([a, b]) => `${Math.min(a, b)}-${Math.max(a, b)}`),
    fc.tuple(fc.integer({ min, max }), fc.integer({ min: 2, max: 9 })).map(([a, n]) => `${a}/${n}`),
    fc.integer({ min: 2, max: 20 }).map((n) => `*/${n}`),
  );
const anyField = (min: number, max: number, star: number) =>
  fc.oneof(
    { weight: star, arbitrary: fc.constant('*') },
    { weight: 6, arbitrary: fc.array(part(min, max), { minLength: 1, maxLength: 3 }).map((parts) => parts.join(',')) },
  );
const expression = fc
  .tuple(anyField(0, 59, 1), anyField(0, 23, 2), anyField(1, 31, 4), anyField(1, 12, 4), anyField(0, 7, 4))
  .map((fields) => fields.join(' '));

/**
 * Compares random Unix expressions in random zones with the EventBridge expressions made from them, minute by minute
 * over four years. Returns the number of matching minutes. Throws at the first difference.
 */
export function compareMinutes(numRuns: number): number {
  const tables = new Map<string, Int32Array>();
  const marks = new Uint8Array(MINUTES);
  let minutes = 0;
  fc.assert(
    fc.property(expression, fc.constantFrom(...ZONES), (text, zoneName) => {
      let cron: ReturnType<typeof parseCron>;
      try {
        cron = parseCron(text);
        toAwsCrons(cron);
      } catch (error) {
        // A few random expressions never occur, but none is too long.
        expect(String(error)).toMatch(/never occurs/);
        return;
      }
      const zone = Zone.of(zoneName);
      const table = tables.get(zoneName) ?? localMinutes(zoneName);
      tables.set(zoneName, table);
      marks.fill(0);
      const awsCrons = toAwsCrons(cron);
      for (const each of awsCrons) mark(each.expression, table, marks);
      let at = nextTime(cron, zone, START - 1) ?? Number.POSITIVE_INFINITY;
      // If both day fields must match, EventBridge may fire on minutes that do not match.
      const mayBeInVain = !cron.isEither && !cron.daysOfMonth.isFull && !cron.daysOfWeek.isFull;
      for (let i = 0; i < MINUTES; i++) {
        const instant = START + i * MINUTE;
        const isNamed = instant === at;
        if (isNamed) {
          minutes++;
          at = nextTime(cron, zone, at) ?? Number.POSITIVE_INFINITY;
        }
        if (isNamed === marks[i]! > 0) continue;
        if (!isNamed && mayBeInVain) {
          if (occursAt(cron, zone, instant))
            throw new Error(`${text} in ${zoneName}: ${instant} is due and was left out`);
          continue;
        }
        throw new Error(
          `${text} in ${zoneName}, ${awsCrons.map((each) => each.expression)}: ${new Date(instant).toISOString()}`,
        );
      }
    }),
    { numRuns },
  );
  return minutes;
}
