import type { Schedule } from '../schedules/schedule.ts';

/** Consecutive failures of a schedule, as reported in an alert. */
export interface FailureStreak {
  readonly scheduleId: string;
  readonly workspaceId: string;
  readonly agentName: string;
  readonly consecutiveFailures: number;
  /** Number of failures that disables the schedule. */
  readonly threshold: number;
  readonly autoDisabled: boolean;
  readonly lastError: string;
}

const MAX_ERROR_CHARACTERS = 2_000;

/**
 * Returns whether the last failure makes an alert due: the failure that reaches the alert count, and the failure that
 * disables the schedule. If both are the same failure, one alert is sent.
 */
export const isAlertDue = (
  { consecutiveFailures, alertOnFailureCount, deletedAt }: Schedule,
  { autoDisabled }: { readonly autoDisabled: boolean },
): boolean => deletedAt === null && (autoDisabled || consecutiveFailures === alertOnFailureCount);

/** Secrets in `lastError` must be masked. */
export const streakOf = (
  { id, workspaceId, agentName, consecutiveFailures, maxConsecutiveFailures }: Schedule,
  { autoDisabled, lastError }: { readonly autoDisabled: boolean; readonly lastError: string | null },
): FailureStreak => ({
  scheduleId: id,
  workspaceId,
  agentName,
  consecutiveFailures,
  threshold: maxConsecutiveFailures,
  autoDisabled,
  lastError: (lastError ?? '').slice(0, MAX_ERROR_CHARACTERS),
});

/** Returns the body of the alert. */
export const streakView = (streak: FailureStreak) => ({
  event: 'schedule.failure_streak',
  schedule_id: streak.scheduleId,
  workspace_id: streak.workspaceId,
  agent_name: streak.agentName,
  consecutive_failures: streak.consecutiveFailures,
  threshold: streak.threshold,
  auto_disabled: streak.autoDisabled,
  last_error: streak.lastError,
});
