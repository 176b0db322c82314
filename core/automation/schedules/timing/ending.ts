import { isoTime } from '#core/ports/clock.ts';
import type { EndReason, NewScheduleEvent, Schedule } from '../schedule.ts';

/**
 * Returns why an enabled schedule in this state runs no more at `now` (epoch milliseconds); `undefined` if it may still
 * run (`docs/interface/schedules.md#end`).
 */
export function endOf(schedule: Schedule, now: number): EndReason | undefined {
  const { enabled, type, nextRunAt, runCount, endsAt, maxRuns } = schedule;
  if (!enabled) return undefined;
  if (maxRuns != null && runCount >= maxRuns) return 'max_runs';
  if (endsAt == null) return undefined;
  return (type === 'cron' ? nextRunAt === null : endsAt < isoTime(now)) ? 'ends_at' : undefined;
}

/** Returns the members that end a schedule. */
export const ended = (reason: EndReason, now: number) =>
  ({ enabled: false, nextRunAt: null, endedAt: isoTime(now), endedReason: reason }) as const;

/** Returns the timeline entry of the end. */
export const endedEvent = (reason: EndReason, { runCount, endsAt }: Schedule): NewScheduleEvent => ({
  type: 'ended',
  message:
    reason === 'max_runs'
      ? `Ended after ${runCount} ${runCount === 1 ? 'run' : 'runs'}, as max_runs says.`
      : `Ended: no run is left until ${endsAt}, as ends_at says.`,
});

/** Returns a time of a run (ISO text) unless it is after the end of the schedule. */
export const unlessAfterEnd = (time: string | null, { endsAt }: Pick<Schedule, 'endsAt'>): string | null =>
  time !== null && endsAt != null && time > endsAt ? null : time;
