import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Schedule } from './schedule.ts';
import { ScheduleStore } from './store.ts';

type FindDeps = Pick<Deps, 'main' | 'clock' | 'ids' | 'config'>;

/** Returns a schedule of the caller's workspace. Throws NOT_FOUND, also for deleted schedules. */
export async function findSchedule(deps: FindDeps, caller: Caller, id: string): Promise<Schedule> {
  const schedule = await new ScheduleStore(deps, caller.workspace.id).find(id);
  if (schedule === undefined) throw scheduleNotFound(caller, id);
  return schedule;
}

/**
 * Returns a schedule of the caller's workspace, even if it is deleted, because its history outlives it. Throws
 * NOT_FOUND.
 */
export async function findScheduleEver(deps: FindDeps, caller: Caller, id: string): Promise<Schedule> {
  const schedule = await new ScheduleStore(deps, caller.workspace.id).findEver(id);
  if (schedule === undefined) throw scheduleNotFound(caller, id);
  return schedule;
}

export const scheduleNotFound = ({ workspace }: Caller, id: string): PlatformError =>
  new PlatformError('NOT_FOUND', `The workspace "${workspace.slug}" has no schedule with the id "${id.slice(0, 64)}".`);
