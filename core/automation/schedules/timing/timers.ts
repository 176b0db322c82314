import type { AllDeps } from '#core/ports/deps.ts';
import type { Timer } from '#core/ports/timers.ts';
import type { Schedule } from '../schedule.ts';
import { findAnySchedule, listTimed } from '../store.ts';

/** Returns the timer of a schedule; `undefined` while it is disabled, and for webhooks. */
export const timerOf = ({ id, workspaceId, enabled, cronExpression, timezone }: Schedule): Timer | undefined =>
  enabled && cronExpression !== null ? { workspaceId, scheduleId: id, cronExpression, timezone } : undefined;

/**
 * Replaces the timer of a schedule after a change. Never throws: the table is the source of truth, and the sweeps
 * repair timers that could not be set or removed.
 */
export async function adjustTimers(
  { timers, log }: Pick<AllDeps, 'timers' | 'log'>,
  before: Schedule | undefined,
  after: Schedule | undefined,
): Promise<void> {
  const [old, next] = [before && timerOf(before), after && timerOf(after)];
  const attempt = async (failure: string, scheduleId: string, work: Promise<void>): Promise<void> => {
    await work.catch((error: unknown) => log.warn(failure, { schedule_id: scheduleId, error: String(error) }));
  };
  const isSame = old && next && old.cronExpression === next.cronExpression && old.timezone === next.timezone;
  if (next) await attempt('timer not set', next.scheduleId, timers.set(next));
  if (old && !isSame) await attempt('timer not removed', old.scheduleId, timers.remove(old));
}

/** Repairs the host's timers from the table, after partially failed changes. Safe to run at any time. */
export async function reconcileTimers(
  deps: Pick<AllDeps, 'main' | 'timers' | 'log' | 'clock' | 'ids' | 'config'>,
): Promise<void> {
  const { set, removed } = await deps.timers.reconcile(
    () => listTimers(deps),
    // The index is eventually consistent and may not list a new schedule yet.
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
