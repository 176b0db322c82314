import { awsDeps } from '#aws/all-deps.ts';
import { fireOverdue, sweepScheduleRuns } from '#core/automation/schedules/fire.ts';
import { host } from '../host.ts';

const deps = awsDeps(host.config);

/** Called every minute. One that fails is followed by the next. */
export async function handler(): Promise<void> {
  await Promise.all([fireOverdue(deps), sweepScheduleRuns(deps)]);
  await deps.settled();
}
