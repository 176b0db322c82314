import { collectAgentGarbage } from '#core/agents/garbage.ts';
import { purgeUploads } from '#core/agents/uploads/store.ts';
import { continueEvals } from '#core/automation/evals/continue.ts';
import { scoreOnline } from '#core/automation/evals/online/continue.ts';
import { fireDue, fireOverdue, sweepScheduleRuns } from '#core/automation/schedules/runs/fire.ts';
import { reconcileTimers } from '#core/automation/schedules/timing/timers.ts';
import { reconcilePayments } from '#core/billing/top-ups/sync.ts';
import { sumEndedRuns } from '#core/billing/usage/sum-ended-runs.ts';
import { continueBulks } from '#core/execution/bulk/continue.ts';
import { resumeRun, resumeRuns } from '#core/execution/durable/resume.ts';
import type { Deps } from '#core/ports/deps.ts';
import { announceEnds } from '#core/runs/destinations/announce.ts';
import { sweepQueues } from '#core/runs/queues/sweep.ts';
import { eraseExpiredSessions } from '#core/runs/sessions/erase.ts';
import { sendTelemetry } from '#core/runs/telemetry/send.ts';
import { applyServices } from '#core/services/apply.ts';
import { keepServices } from '#core/services/sweep.ts';
import { agentListeners } from './agent-listeners.ts';
import type { BackgroundName } from './background.ts';
import { install } from './install.ts';
import { deleteExpiredBlobs, finishLostRuns, retryDeliveries, takeBackCanaries, watchBudgets } from './sweeps.ts';
import { tellWorkspace } from './tell-workspace.ts';

/**
 * The code of every row of the background table, for a host that runs them all. Deployed functions import only their
 * own.
 */
export const allWork = {
  finishLostRuns,
  sumEndedRuns,
  retryDeliveries,
  sendTelemetry,
  announceEnds,
  eraseExpiredSessions,
  takeBackCanaries,
  watchBudgets,
  deleteExpiredUploads: purgeUploads,
  deleteExpiredBlobs,
  collectGarbage: collectAgentGarbage,
  runDueSchedule: fireDue,
  runOverdueSchedules: fireOverdue,
  resumeScheduleRuns: sweepScheduleRuns,
  resumeRun,
  resumeRuns: (deps: Parameters<typeof resumeRuns>[0]) => resumeRuns(deps),
  sweepQueues,
  // A stopping server waits for the runs of the slice.
  continueBulks: (deps: Parameters<typeof continueBulks>[0]) => continueBulks(deps, 5_000),
  continueEvals: (deps: Deps) => continueEvals({ ...deps, listeners: agentListeners(deps) }, 5_000),
  scoreRuns: (deps: Parameters<typeof scoreOnline>[0]) => scoreOnline(deps, tellWorkspace(deps), 5_000),
  repairTimers: reconcileTimers,
  keepServices,
  applyServices,
  reconcilePayments,
  install,
} satisfies Record<BackgroundName, unknown>;
