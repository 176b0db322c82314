import { ScheduleStore } from '#core/automation/schedules/store.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';

/**
 * Rewinds the clock of one schedule instead of waiting for its next minute: the current minute becomes the first
 * pending one. Returns it in epoch milliseconds.
 */
export async function makeDue(
  deps: Pick<Deps, 'main' | 'clock' | 'ids' | 'config'>,
  workspaceId: string,
  scheduleId: string,
): Promise<number> {
  const minute = Math.floor(deps.clock.now() / 60_000) * 60_000;
  await new ScheduleStore(deps, workspaceId).change(scheduleId, () => ({ set: { nextRunAt: isoTime(minute) } }));
  return minute;
}
