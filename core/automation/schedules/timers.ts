import type { AllDeps } from '#core/ports/deps.ts';
import type { Timer } from '#core/ports/timers.ts';
import { findAnySchedule, listTimed, type Schedule } from './store.ts';

/** What wakes the platform for a schedule; nothing while it is disabled, or is a webhook. */
export const timerOf = (schedule: Schedule): Timer | undefined =>
  schedule.enabled && schedule.cron_expression !== null
    ? {
        workspaceId: schedule.workspace_id,
        scheduleId: schedule.id,
        cronExpression: schedule.cron_expression,
        timezone: schedule.timezone,
      }
    : undefined;

type TimerDeps = Pick<AllDeps, 'main' | 'timers' | 'log' | 'clock' | 'ids' | 'config'>;

/** Brings the host's timers into line with the table, after changes that failed half way. Safe to run at any time. */
export async function reconcileTimers(deps: TimerDeps): Promise<void> {
  const { set, removed } = await deps.timers.reconcile(
    () => listTimers(deps),
    // An index may lag behind: a schedule of this moment is not listed yet.
    async (scheduleId) => {
      const schedule = await findAnySchedule(deps, scheduleId);
      return schedule && timerOf(schedule);
    },
  );
  if (set + removed > 0) deps.log.warn('timers repaired', { set, removed });
}

async function* listTimers(deps: Pick<AllDeps, 'main'>): AsyncGenerator<Timer> {
  for await (const schedule of listTimed(deps)) {
    const timer = timerOf(schedule);
    if (timer) yield timer;
  }
}
