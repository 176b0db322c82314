import { awsDeps } from '#aws/all-deps.ts';
import { tellWorkspace } from '#core/api/tell-workspace.ts';
import { continueEvals } from '#core/automation/evals/continue.ts';
import { scoreOnline } from '#core/automation/evals/online/continue.ts';
import { fireOverdue, sweepScheduleRuns } from '#core/automation/schedules/runs/fire.ts';
import { continueBulks } from '#core/execution/bulk/continue.ts';
import { createClockHandler } from '../clock.ts';
import { host } from '../host.ts';

const deps = awsDeps(host.config);
export const handler = createClockHandler('schedule-sweeper', deps, {
  runOverdueSchedules: fireOverdue,
  resumeScheduleRuns: sweepScheduleRuns,
  continueBulks: (all) => continueBulks(all),
  continueEvals: (all) => continueEvals(all),
  scoreRuns: (all) => scoreOnline(all, tellWorkspace(all)),
});
