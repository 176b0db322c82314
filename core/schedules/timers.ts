import type { AllDeps } from '../deps.ts';
import type { Timer } from '../ports/timers.ts';
import { listTimed, type Schedule } from './store.ts';

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

/** Brings the host's timers into line with the table, after changes that failed half way. Safe to run at any time. */
export async function reconcileTimers(deps: Pick<AllDeps, 'main' | 'timers' | 'log'>): Promise<void> {
  const { set, removed } = await deps.timers.reconcile(() => listTimers(deps));
  if (set + removed > 0) deps.log.warn('timers repaired', { set, removed });
}

async function* listTimers(deps: Pick<AllDeps, 'main'>): AsyncGenerator<Timer> {
  for await (const schedule of listTimed(deps)) {
    const timer = timerOf(schedule);
    if (timer) yield timer;
  }
}
