import { SCHEDULE_WINDOW_MS } from '#core/base/time-limits.ts';
import { Zone } from '#core/base/zone.ts';
import { isoTime } from '#core/ports/clock.ts';
import { type Cron, nextTime, parseCron, previousTime } from './cron.ts';
import type { NewScheduleEvent, Schedule } from './schedule.ts';

/** Further missed minutes are not counted one by one. */
const MAX_COUNTED = 1000;

/** Times in epoch milliseconds. */
interface DueMinutes {
  /** The minute that is to run, unless it is too late for all of them. */
  readonly newest?: number;
  readonly missed: readonly NewScheduleEvent[];
  /** The first minute after them. */
  readonly next: number | undefined;
}

/** The minutes of a schedule that are due by `until` (epoch milliseconds); `undefined` if there are none. */
export function dueMinutes(schedule: Schedule, until: number): DueMinutes | undefined {
  if (!schedule.enabled || schedule.cronExpression === null || schedule.deletedAt !== null) return undefined;
  const cron = cronOf(schedule.cronExpression);
  const zone = Zone.of(schedule.timezone);
  const next = nextTime(cron, zone, until);
  // The next run was lost, and with it which minutes should have run.
  if (schedule.nextRunAt === null) return { missed: [], next };
  const first = Date.parse(schedule.nextRunAt);
  if (first > until) return undefined;
  // Nearly always there is one.
  const isOne = nextTime(cron, zone, first) === next;
  const newest = isOne ? first : Math.max(previousTime(cron, zone, until) ?? first, first);
  const isLate = until - newest > SCHEDULE_WINDOW_MS;
  const lastMissed = isLate ? newest : isOne ? undefined : previousTime(cron, zone, newest - 1);
  const missed = lastMissed !== undefined && lastMissed >= first ? [missedEvent(cron, zone, first, lastMissed)] : [];
  return { ...(!isLate && { newest }), missed, next };
}

/** Expressions that were parsed before: many schedules share one, and each asks for its own at every minute. */
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
