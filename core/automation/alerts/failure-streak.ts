import type { Schedule } from '../schedules/store.ts';

/** What an alert tells (`contract.md` 7.5). */
export interface FailureStreak {
  readonly event: 'schedule.failure_streak';
  readonly schedule_id: string;
  readonly workspace_id: string;
  readonly agent_name: string;
  readonly consecutive_failures: number;
  /** The number of failures that disables the schedule. */
  readonly threshold: number;
  readonly auto_disabled: boolean;
  readonly last_error: string;
}

const MAX_ERROR_CHARACTERS = 2_000;

/**
 * Whether a failure is one to alert of (`spec.md` *Events*), the schedule being as the failure left it: the one that
 * reaches the count, and the one that disables the schedule. Where both are the same failure, there is one alert.
 */
export const isAlertDue = (
  { consecutive_failures, alert_on_failure_count, deleted_at }: Schedule,
  { autoDisabled }: { readonly autoDisabled: boolean },
): boolean => deleted_at === null && (autoDisabled || consecutive_failures === alert_on_failure_count);

/** Secrets must have been masked in `lastError`. */
export const streakOf = (
  schedule: Schedule,
  { autoDisabled, lastError }: { readonly autoDisabled: boolean; readonly lastError: string | null },
): FailureStreak => ({
  event: 'schedule.failure_streak',
  schedule_id: schedule.id,
  workspace_id: schedule.workspace_id,
  agent_name: schedule.agent_name,
  consecutive_failures: schedule.consecutive_failures,
  threshold: schedule.max_consecutive_failures,
  auto_disabled: autoDisabled,
  last_error: (lastError ?? '').slice(0, MAX_ERROR_CHARACTERS),
});
