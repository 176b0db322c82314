import { awsDeps } from '#aws/all-deps.ts';
import { wakeParts } from '#aws/deps.ts';
import { agentListeners } from '#core/api/agent-listeners.ts';
import { tellWorkspace } from '#core/api/tell-workspace.ts';
import { fireOverdue, sweepScheduleRuns } from '#core/automation/schedules/runs/fire.ts';
import { createClockHandler } from '../clock.ts';
import { host } from '../host.ts';

const deps = { ...awsDeps(host.config), ...wakeParts(host) };
export const handler = createClockHandler('schedule-sweeper', deps, {
  runOverdueSchedules: fireOverdue,
  resumeScheduleRuns: sweepScheduleRuns,
  // Loaded lazily: these have something to do less often than schedules, and smaller functions start faster.
  async continueBulks(all) {
    const { continueBulks } = await import('#core/execution/bulk/continue.ts');
    await continueBulks(all);
  },
  async continueEvals(all) {
    const { continueEvals } = await import('#core/automation/evals/continue.ts');
    await continueEvals({ ...all, listeners: agentListeners(all) });
  },
  async scoreRuns(all) {
    const { scoreOnline } = await import('#core/automation/evals/online/continue.ts');
    await scoreOnline(all, tellWorkspace(all));
  },
});
