import { awsDeps } from '#aws/all-deps.ts';
import { wakeParts } from '#aws/deps.ts';
import { agentListeners } from '#core/api/agent-listeners.ts';
import { tellWorkspace } from '#core/api/tell-workspace.ts';
import { scoreOnline } from '#core/automation/evals/online/continue.ts';
import { fireOverdue, sweepScheduleRuns } from '#core/automation/schedules/runs/fire.ts';
import { continueBulks } from '#core/execution/bulk/continue.ts';
import { createClockHandler } from '../clock.ts';
import { host } from '../host.ts';

const deps = { ...awsDeps(host.config), ...wakeParts(host) };
export const handler = createClockHandler('schedule-sweeper', deps, {
  runOverdueSchedules: fireOverdue,
  resumeScheduleRuns: sweepScheduleRuns,
  continueBulks: (all) => continueBulks(all),
  // Loaded lazily: evaluations are rare, and smaller functions start faster.
  async continueEvals(all) {
    const { continueEvals } = await import('#core/automation/evals/continue.ts');
    await continueEvals({ ...all, listeners: agentListeners(all) });
  },
  scoreRuns: (all) => scoreOnline(all, tellWorkspace(all)),
});
