import { type Delivery, deliveryOperation, tryDelivery } from '#core/outbound/deliveries.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { allOf, equals } from '#core/ports/table.ts';
import type { Run } from '#core/runs/run.ts';
import { isAlertDue, streakOf } from '../../alerts/failure-streak.ts';
import { type AlertDeps, newAlert, scheduleAlertListener } from '../../alerts/schedule-alerts.ts';
import { nextRun } from '../changes/settings.ts';
import type { NewScheduleEvent, Schedule } from '../schedule.ts';
import { checkSchedule, type ScheduleChange, ScheduleStore } from '../store.ts';
import { unlessAfterEnd } from '../timing/ending.ts';
import { closeRunOperation, type OpenScheduleRun } from './open-runs.ts';

/** `errorCode` `RATE_LIMITED` means that the platform or the workspace had no capacity for the run. */
type RunEnd = Pick<Run, 'status' | 'errorCode' | 'errorMessage'>;

/**
 * Counts an ended run once. A success resets the consecutive failures; a failure adds one and disables the schedule at
 * the maximum, unless a grant is missing (`docs/interface/grants.md#schedules`). A run rejected for lack of capacity
 * changes neither (`docs/interface/schedules.md#room`). The alert for a failure is written in the same transaction and
 * sent in the background.
 */
export async function countEndedRun(
  deps: AlertDeps & Pick<Deps, 'background'>,
  run: OpenScheduleRun,
  end: RunEnd,
): Promise<void> {
  if (end.status === 'completed' && (await noteSuccess(deps, run))) return;
  await changeEndedSchedule(deps, run, end);
}

/** Counts an end that cannot be recorded by removing a note alone: see {@link noteSuccess}. */
export async function changeEndedSchedule(
  deps: AlertDeps & Pick<Deps, 'background'>,
  run: OpenScheduleRun,
  end: RunEnd,
): Promise<void> {
  let alert: Delivery | undefined;
  const counted = await new ScheduleStore(deps, run.workspaceId).change(run.scheduleId, (schedule) => {
    const outcome = endRunChange(deps, schedule, run, end);
    alert = outcome.alert;
    return outcome.change;
  });
  if (counted && alert) deps.background(tryDelivery(deps, alert, scheduleAlertListener(deps)));
}

/**
 * Counts a success by deleting the note of its run, which saves a write of the schedule. Returns false if the schedule
 * must be written, too: the success ends a streak of failures, or the end of the run affects the next minute.
 */
export async function noteSuccess({ main }: Pick<Deps, 'main'>, run: OpenScheduleRun): Promise<boolean> {
  const isUnchanged = allOf(equals('consecutive_failures', 0), equals('overlap', 'allow'));
  const { ok } = await main.transact([
    checkSchedule(run.workspaceId, run.scheduleId, isUnchanged),
    closeRunOperation(run),
  ]);
  return ok;
}

/**
 * Counts a minute as missed because its run found no capacity in time. No run is recorded, as it never started. A
 * schedule that ended with this run as its last one may run again.
 */
export async function countMissedRun(deps: AlertDeps, run: OpenScheduleRun): Promise<void> {
  const at = run.scheduledFor!;
  const message = `The run of ${isoTime(at)} was missed: the workspace had no free capacity.`;
  await new ScheduleStore(deps, run.workspaceId).change(run.scheduleId, (schedule) => {
    const runCount = schedule.runCount - 1;
    const reopened = reopenedAt(deps.clock.now(), { ...schedule, runCount });
    return {
      set: { runCount, ...(schedule.lastRunId === run.runId && run.before), ...reopened },
      events: [
        { type: 'missed', message, slot: { at, count: 1 } },
        ...(reopened ? [{ type: 'enabled', message: 'Schedule enabled: its last run did not begin.' } as const] : []),
      ],
      alongside: [closeRunOperation(run)],
    };
  });
}

/** Returns the members that undo the end of a schedule whose runs are fewer than `maxRuns` again. */
function reopenedAt(now: number, schedule: Schedule): Partial<Schedule> | undefined {
  const { endedReason, maxRuns, runCount, deletedAt, cronExpression, timezone } = schedule;
  if (endedReason !== 'max_runs' || maxRuns == null || runCount >= maxRuns || deletedAt !== null) return undefined;
  const nextRunAt = unlessAfterEnd(nextRun(cronExpression, timezone, now), schedule);
  return { enabled: true, nextRunAt, endedAt: null, endedReason: null };
}

function endRunChange(
  deps: AlertDeps,
  schedule: Schedule,
  run: OpenScheduleRun,
  end: RunEnd,
): { change: ScheduleChange; alert?: Delivery } {
  const closed: Partial<Schedule> = {
    ...(schedule.lastRunId === run.runId && { lastRunStatus: end.status }),
    ...(end.status === 'completed' && { consecutiveFailures: 0 }),
  };
  const close = closeRunOperation(run);
  if (end.status !== 'failed' && end.status !== 'timeout') return { change: { set: closed, alongside: [close] } };
  if (end.errorCode === 'RATE_LIMITED') {
    const events = failureEvents(run, end, { failures: schedule.consecutiveFailures, autoDisabled: false });
    return { change: { set: closed, events, alongside: [close] } };
  }

  const failures = schedule.consecutiveFailures + 1;
  const lacksGrant = end.errorCode === 'MISSING_SECRETS' && (schedule.lackedGrants ?? null) !== null;
  const autoDisabled = schedule.enabled && failures >= schedule.maxConsecutiveFailures && !lacksGrant;
  const set = {
    ...closed,
    consecutiveFailures: failures,
    ...(autoDisabled && {
      enabled: false,
      nextRunAt: null,
      autoDisabledAt: isoTime(deps.clock.now()),
      autoDisabledReason: reasonOf(end),
    }),
  };
  const alert = alertOf(deps, { ...schedule, ...set }, { autoDisabled, lastError: end.errorMessage });
  const alongside = alert ? [close, deliveryOperation(deps, alert)] : [close];
  return {
    change: { set, events: failureEvents(run, end, { failures, autoDisabled }), alongside },
    ...(alert && { alert }),
  };
}

/** Returns the alert that the failure makes due, if any. `schedule` is the state after the failure. */
function alertOf(
  deps: Pick<Deps, 'ids'>,
  schedule: Schedule,
  failure: { autoDisabled: boolean; lastError: string | null },
): Delivery | undefined {
  const { alertWebhookUrl } = schedule;
  if (alertWebhookUrl === null || !isAlertDue(schedule, failure)) return undefined;
  return newAlert(deps, streakOf(schedule, failure), alertWebhookUrl);
}

const reasonOf = ({ errorMessage }: RunEnd): string => (errorMessage ?? 'no reason was given').slice(0, 400);

function failureEvents(
  { runId }: OpenScheduleRun,
  end: RunEnd,
  { failures, autoDisabled }: { failures: number; autoDisabled: boolean },
): NewScheduleEvent[] {
  const failed: NewScheduleEvent = { type: 'run_failed', message: `Run ${runId} failed: ${reasonOf(end)}` };
  if (!autoDisabled) return [failed];
  return [failed, { type: 'auto_disabled', message: `Disabled after ${failures} failures in a row.` }];
}
