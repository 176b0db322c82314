import type { Deps } from '#core/ports/deps.ts';
import { getAll } from '#core/ports/table.ts';
import type { Schedule } from '../schedule.ts';
import { ScheduleStore } from '../store.ts';
import { keyOfOpenRun } from './open-runs.ts';

/**
 * Returns schedules of one workspace with the status of their last runs. A success is not always written to its
 * schedule, but every other end is, in the transaction that deletes the note of the run. So `running` without a note
 * means `completed`.
 */
export async function withLastStatus(
  deps: Pick<Deps, 'main' | 'clock' | 'ids' | 'config'>,
  schedules: readonly Schedule[],
): Promise<Schedule[]> {
  const running = schedules.filter(({ lastRunId, lastRunStatus }) => lastRunId !== null && lastRunStatus === 'running');
  if (running.length === 0) return [...schedules];
  const keys = running.map(({ id, lastRunId }) => keyOfOpenRun({ scheduleId: id, runId: lastRunId! }));
  const notes = await getAll(deps.main, keys);
  const ended = running.filter((_, i) => notes[i] === undefined);
  // Read after the notes, to include everything that was written when the notes were deleted.
  const store = new ScheduleStore(deps, running[0]!.workspaceId);
  const now = new Map((await store.findAll(ended.map(({ id }) => id))).map((schedule) => [schedule.id, schedule]));
  return schedules.map((schedule) => {
    const current = now.get(schedule.id) ?? schedule;
    const isSame = current !== schedule && current.lastRunId === schedule.lastRunId;
    return isSame && current.lastRunStatus === 'running' ? { ...current, lastRunStatus: 'completed' } : current;
  });
}
