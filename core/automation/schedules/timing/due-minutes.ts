import { SCHEDULE_WINDOW_MS } from '#core/base/time-limits.ts';
import { Zone } from '#core/base/zone.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { NewScheduleEvent, Schedule } from '../schedule.ts';
import { type Cron, MINUTE_MS, nextTime, parseCron, previousTime } from './cron.ts';

/** Maximum number of missed minutes that are counted exactly. */
const MAX_COUNTED = 1000;

/** Times in epoch milliseconds. */
interface DueMinutes {
  /** Minute to run, unless it is too late for all of them. */
  readonly newest?: number;
  readonly missed: readonly NewScheduleEvent[];
  /** First minute after the due ones, up to the end of the schedule. */
  readonly next: number | undefined;
}

/** Returns the minutes of a schedule that are due by `until` (epoch milliseconds); `undefined` if there are none. */
export function dueMinutes(schedule: Schedule, until: number): DueMinutes | undefined {
  if (!schedule.enabled || schedule.cronExpression === null || schedule.deletedAt !== null) return undefined;
  const cron = cronOf(schedule.cronExpression);
  const zone = Zone.of(schedule.timezone);
  const end = schedule.endsAt == null ? Number.POSITIVE_INFINITY : Date.parse(schedule.endsAt);
  const last = Math.min(until, end);
  const following = nextAfter(cron, zone, last);
  const next = following === undefined || following > end ? undefined : following;
  // Without the next run, the missed minutes are unknown.
  if (schedule.nextRunAt === null) return { missed: [], next };
  const first = Date.parse(schedule.nextRunAt);
  if (first > until) return undefined;
  // Fast path: usually exactly one minute is due.
  const isOne = nextAfter(cron, zone, first) === following;
  const newest = isOne ? first : Math.max(previousTime(cron, zone, last) ?? first, first);
  const isLate = until - newest > SCHEDULE_WINDOW_MS;
  const lastMissed = isLate ? newest : isOne ? undefined : previousTime(cron, zone, newest - 1);
  const missed = lastMissed !== undefined && lastMissed >= first ? [missedEvent(cron, zone, first, lastMissed)] : [];
  return { ...(!isLate && { newest }), missed, next };
}

/** Caches the last requested minute per expression: on the hour, many schedules request the same one. */
const lastNext = new WeakMap<
  Cron,
  { readonly zone: Zone; readonly minute: number; readonly next: number | undefined }
>();

/** Cached {@link nextTime}, whose result is the same for every moment of a minute. */
function nextAfter(cron: Cron, zone: Zone, time: number): number | undefined {
  const minute = Math.floor(time / MINUTE_MS);
  const last = lastNext.get(cron);
  if (last?.zone === zone && last.minute === minute) return last.next;
  const next = nextTime(cron, zone, time);
  lastNext.set(cron, { zone, minute, next });
  return next;
}

/** Caches parsed expressions: many schedules share one and need it every minute. */
const parsed = new Map<string, Cron>();
const MAX_PARSED = 1_000;

function cronOf(expression: string): Cron {
  const known = parsed.get(expression);
  if (known) return known;
  if (parsed.size >= MAX_PARSED) parsed.clear();
  const cron = parseCron(expression);
  parsed.set(expression, cron);
  return cron;
}

function missedEvent(cron: Cron, zone: Zone, first: number, last: number): NewScheduleEvent {
  let count = 1;
  for (let time = first; time < last && count <= MAX_COUNTED; count++) time = nextTime(cron, zone, time) ?? last;
  const message =
    count === 1
      ? `The run of ${isoTime(first)} was missed.`
      : `${count > MAX_COUNTED ? `More than ${MAX_COUNTED}` : count} runs were missed, from ${isoTime(first)} to ${isoTime(last)}.`;
  return { type: 'missed', message, slot: { at: first, count } };
}
