import type * as z from 'zod';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Run } from '#core/runs/run.ts';
import { nextRun } from './changes/settings.ts';
import { withLastStatus } from './runs/last-run.ts';
import type { Schedule, ScheduleEvent } from './schedule.ts';
import type { scheduleEvent, scheduleRun, scheduleView } from './schema.ts';
import { ended, endOf, unlessAfterEnd } from './timing/ending.ts';
import { webhookUrl } from './webhook-secret.ts';

type StoreDeps = Pick<Deps, 'main' | 'clock' | 'ids' | 'config'>;

/** Returns schedules of one workspace in their API form, with the status of their last runs. */
export const viewsOf = async (
  deps: StoreDeps,
  schedules: readonly Schedule[],
): Promise<z.output<typeof scheduleView>[]> =>
  (await withLastStatus(deps, schedules)).map((schedule) => viewOf(deps, schedule));

export const currentViewOf = async (deps: StoreDeps, schedule: Schedule): Promise<z.output<typeof scheduleView>> =>
  (await viewsOf(deps, [schedule]))[0]!;

/** Returns a stored schedule in its API form. `secret` is set only in the response that creates it. */
export function viewOf(
  { config, clock }: Pick<Deps, 'config' | 'clock'>,
  schedule: Schedule,
  secret?: string,
): z.output<typeof scheduleView> {
  const now = clock.now();
  // The time of a webhook may be over before the platform has noted it.
  const over = endOf(schedule, now) === 'ends_at' ? { ...ended('ends_at', now), endedAt: schedule.endsAt } : undefined;
  const { enabled, endsAt, maxRuns, endedAt, endedReason } = { ...schedule, ...over };
  const { cronExpression, timezone, nextRunAt, webhookSecretPreview } = schedule;
  // A minute that is already being handled is not the next one.
  const isPast = nextRunAt !== null && nextRunAt <= isoTime(now);
  return {
    id: schedule.id,
    workspace_id: schedule.workspaceId,
    agent_id: schedule.agentId,
    agent_name: schedule.agentName,
    agent_version: schedule.agentVersion,
    schedule_type: schedule.type,
    type: schedule.type,
    cron_expression: cronExpression,
    timezone,
    input_data: schedule.input,
    llm_provider: schedule.llmProvider,
    provider: schedule.llmProvider,
    enabled,
    auto_update: schedule.autoUpdate,
    pin_version: !schedule.autoUpdate,
    ...(schedule.channel != null && { channel: schedule.channel }),
    overlap: schedule.overlap,
    ...(webhookSecretPreview !== null && { webhook_secret_preview: webhookSecretPreview }),
    ...(secret !== undefined && { webhook_url: webhookUrl({ config }, schedule.id, secret) }),
    ...(endsAt != null && { ends_at: endsAt }),
    ...(maxRuns != null && { max_runs: maxRuns }),
    ...(schedule.retry != null && { retry: schedule.retry }),
    ...(schedule.concurrency != null && { concurrency: schedule.concurrency }),
    ...(schedule.rate != null && { rate: schedule.rate }),
    ...(schedule.debounce != null && { debounce: schedule.debounce }),
    ...(endedAt != null && { ended_at: endedAt }),
    ...(endedReason != null && { ended_reason: endedReason }),
    next_run_at: isPast ? unlessAfterEnd(nextRun(cronExpression, timezone, now), schedule) : nextRunAt,
    last_run_at: schedule.lastRunAt,
    last_run_status: schedule.lastRunStatus,
    run_count: schedule.runCount,
    total_runs: schedule.runCount,
    consecutive_failures: schedule.consecutiveFailures,
    max_consecutive_failures: schedule.maxConsecutiveFailures,
    auto_disabled_at: schedule.autoDisabledAt,
    auto_disabled_reason: schedule.autoDisabledReason ?? null,
    alert_webhook_url: schedule.alertWebhookUrl,
    alert_on_failure_count: schedule.alertOnFailureCount,
    created_at: schedule.createdAt,
    updated_at: schedule.updatedAt,
  };
}

export const eventView = ({ id, type, message, slot, createdAt }: ScheduleEvent): z.output<typeof scheduleEvent> => ({
  id,
  event_type: type,
  message,
  slot_at: slot && isoTime(slot.at),
  count: slot?.count ?? null,
  created_at: createdAt,
});

/** Returns a run in the history of a schedule; with `fields`, only those members. */
export function runView(run: Run, fields: readonly string[] | undefined): Partial<z.output<typeof scheduleRun>> {
  const view = {
    id: run.id,
    status: run.status,
    error_message: run.errorMessage,
    duration_ms: run.durationMs,
    trigger_source: run.triggerSource,
    started_at: run.startedAt,
    completed_at: run.completedAt,
    agent_version: run.agentVersion,
  };
  if (fields === undefined) return view;
  return Object.fromEntries(Object.entries(view).filter(([name]) => fields.includes(name)));
}
