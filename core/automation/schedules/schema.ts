import * as z from 'zod';
import { RUN_STATUSES } from '#core/base/run-kinds.ts';
import { requestTime } from '#core/http/request-time.ts';
import { QUEUE_TEXTS, queueShapes, queueViews } from '#core/manifest/queue-shapes.ts';
import { retryShape, retryView } from '#core/manifest/retry-policy.ts';
import { providerShape } from '#core/models/provider-shape.ts';
import { jsonValue } from './run-answer.ts';

const time = z.iso.datetime();
const runStatus = z.enum(RUN_STATUSES);
const scheduleType = z.enum(['cron', 'webhook']);
const count = z.coerce.number().int();
/** A schedule. Some members have two names, to support clients of either. */
const OWN_RULE = "Absent: the agent's own rule.";
const IN_PLACE = "Of runs of this schedule, in place of the agent's own rule. null: the agent's own.";

export const scheduleView = z.object({
  id: z.uuid(),
  workspace_id: z.uuid(),
  agent_id: z.uuid(),
  agent_name: z.string(),
  agent_version: z.string(),
  schedule_type: scheduleType,
  type: scheduleType.describe('The same as `schedule_type`.'),
  cron_expression: z.string().nullable(),
  timezone: z.string(),
  input_data: z.record(z.string(), z.unknown()),
  llm_provider: providerShape.nullable(),
  provider: providerShape.nullable().describe('The same as `llm_provider`.'),
  enabled: z.boolean(),
  auto_update: z.boolean().describe('Whether the schedule follows new versions of its agent, or its channel.'),
  channel: z.string().optional().describe('Channel of the agent that it follows. Absent: none.'),
  pin_version: z.boolean().describe('The opposite of `auto_update`.'),
  overlap: z.enum(['allow', 'skip']),
  webhook_secret_preview: z.string().optional(),
  webhook_url: z.string().optional().describe('Shown only when it is created.'),
  ends_at: time.optional().describe('No run begins after this time. Absent: none is set.'),
  max_runs: z.int().optional().describe('Number of runs (`run_count`) at which it ends. Absent: none is set.'),
  retry: retryView.optional().describe("When a run that failed is tried again. Absent: the agent's own policy."),
  concurrency: queueViews.concurrency.optional().describe(`${QUEUE_TEXTS.concurrency} ${OWN_RULE}`),
  rate: queueViews.rate.optional().describe(`${QUEUE_TEXTS.rate} ${OWN_RULE}`),
  debounce: queueViews.debounce.optional().describe(`${QUEUE_TEXTS.debounce} ${OWN_RULE}`),
  ended_at: time.optional().describe('When `ends_at` or `max_runs` ended it. Absent: neither did.'),
  ended_reason: z.enum(['ends_at', 'max_runs']).optional().describe('The setting that ended it. Absent: none did.'),
  next_run_at: time.nullable(),
  last_run_at: time.nullable(),
  last_run_status: runStatus.nullable(),
  run_count: z.int(),
  total_runs: z.int().describe('The same as `run_count`.'),
  consecutive_failures: z.int(),
  max_consecutive_failures: z.int(),
  auto_disabled_at: time.nullable(),
  auto_disabled_reason: z.string().nullable().describe('Error of the run that triggered it.'),
  alert_webhook_url: z.string().nullable(),
  alert_on_failure_count: z.int(),
  created_at: time,
  updated_at: time,
});

const MAX_INPUT_BYTES = 100 * 1024;
const inputData = z
  .record(z.string(), jsonValue)
  .refine((input) => Buffer.byteLength(JSON.stringify(input)) <= MAX_INPUT_BYTES, 'must have at most 100 KB')
  .refine(
    (input) => !('llm_credentials' in input),
    'must not have llm_credentials: a schedule uses the keys among the secrets of the workspace, and llm_provider chooses one',
  );
const alertUrl = z
  .string()
  .describe('Where failures are reported: an https:// address of the public internet, or an empty string for nowhere.');

const maxRuns = z.int().min(1).max(1_000_000_000);

/**
 * Shared by the bodies that create and change a schedule. `null` means the same as leaving the member out, except for
 * `llm_provider`, `ends_at` and `max_runs`, which it clears.
 */
const settings = {
  cron_expression: z.string().nullish().describe('Five fields: minute, hour, day of month, month, day of week.'),
  timezone: z.string().nullish().describe('IANA time zone, such as Europe/Berlin. Default: UTC.'),
  input_data: inputData.nullish(),
  llm_provider: providerShape.nullish().describe("Model provider to use instead of the agent's default."),
  provider: providerShape.nullish().describe('The same as `llm_provider`.'),
  auto_update: z.boolean().nullish().describe('Whether the schedule follows new versions of its agent. Default: true.'),
  pin_version: z.boolean().nullish().describe('The opposite of `auto_update`.'),
  enabled: z.boolean().nullish(),
  overlap: z
    .enum(['allow', 'skip'])
    .nullish()
    .describe('Whether a run may start while the previous one is still running. Default: allowed.'),
  alert_webhook_url: alertUrl.nullish(),
  alert_on_failure_count: z
    .int()
    .min(1)
    .max(100)
    .nullish()
    .describe('Failures in a row before an alert is sent. Default: 3.'),
  max_consecutive_failures: z
    .int()
    .min(1)
    .max(100)
    .nullish()
    .describe('Failures in a row before the schedule is disabled. Default: 10.'),
  ends_at: requestTime.nullish().describe('No run begins after this time; then the schedule is disabled. null: none.'),
  max_runs: maxRuns
    .nullish()
    .describe('Number of runs (`run_count`) at which the schedule is disabled. null: no limit.'),
  retry: retryShape
    .nullish()
    .describe("When a run that failed is tried again, in place of the agent's own policy. null: the agent's own."),
  concurrency: queueShapes.concurrency.nullish().describe(`${QUEUE_TEXTS.concurrency} ${IN_PLACE}`),
  rate: queueShapes.rate.nullish().describe(`${QUEUE_TEXTS.rate} ${IN_PLACE}`),
  debounce: queueShapes.debounce.nullish().describe(`${QUEUE_TEXTS.debounce} ${IN_PLACE}`),
};

export const newSchedule = z.object({
  agent_id: z.string().nullish().describe('ID of an agent version.'),
  agent: z
    .string()
    .nullish()
    .describe(
      '`org/agent`, `org/agent@v2` to pin a version, `org/agent@prod` to follow a channel, or `org/agent@dev` for your personal version.',
    ),
  agent_name: z.string().nullish().describe('Name of the agent, if `agent_id` is not set.'),
  agent_version: z
    .string()
    .nullish()
    .describe('Version of `agent_name`: `v2`, `latest`, a channel, or `dev`. Default: `latest`.'),
  schedule_type: scheduleType
    .nullish()
    .describe('What starts its runs: a cron expression (`cron`) or a webhook. Default: `cron`.'),
  type: scheduleType.nullish().describe('The same as `schedule_type`.'),
  webhook: z.boolean().nullish().describe('`true` sets the type to `webhook`.'),
  ...settings,
});
export type NewScheduleBody = z.output<typeof newSchedule>;

export const scheduleChanges = z.object({
  ...settings,
  agent_version: z
    .string()
    .nullish()
    .describe(
      '`v2`, `latest`, a channel to follow, or `dev` for the personal version of the caller. A number or `dev` turns `auto_update` off.',
    ),
});
export type ScheduleChangesBody = z.output<typeof scheduleChanges>;

const agentQuery = z.string().max(200).optional();

export const listQuery = z.object({
  agent_name: agentQuery,
  agent: agentQuery.describe('The same as `agent_name`; accepts `org/agent`, too.'),
  schedule_type: scheduleType.optional(),
  type: scheduleType.optional().describe('The same as `schedule_type`.'),
  limit: count.min(1).max(200).default(100),
  offset: count.min(0).default(0),
});

export const scheduleRun = z.object({
  id: z.uuid(),
  status: runStatus,
  error_message: z.string().nullable(),
  duration_ms: z.int().nullable(),
  trigger_source: z.string().nullable(),
  started_at: time,
  completed_at: time.nullable(),
  agent_version: z.string(),
});

const RUN_FIELDS = Object.keys(scheduleRun.shape);
const FIELD = RUN_FIELDS.join('|');

export const runsQuery = z.object({
  // Clients also send statuses that no run has on this platform.
  status: z.enum([...runStatus.options, 'claimed', 'dead_letter']).optional(),
  limit: count.min(1).max(200).default(20),
  offset: count.min(0).default(0),
  fields: z
    .string()
    .regex(new RegExp(`^ *(${FIELD})( *, *(${FIELD}))* *$`), `may name ${RUN_FIELDS.join(', ')}`)
    .transform((text) => text.split(',').map((name) => name.trim()))
    .optional()
    .describe('Comma-separated members of each run to return. Default: all.'),
});

export const eventsQuery = z.object({
  limit: count.min(1).max(200).default(50),
  offset: count.min(0).max(10_000).default(0),
});

export const scheduleEvent = z.object({
  id: z.uuid(),
  event_type: z.string(),
  message: z.string().nullable(),
  slot_at: time.nullable().describe('For `missed` and `skipped_overlap`: the first scheduled time without a run.'),
  count: z.int().nullable().describe('Number of scheduled times without a run; 1,001 means more than 1,000.'),
  created_at: time,
});

const slot = z.object({
  at: time.nullable().describe('Null for a local time that a clock change skips: nothing runs.'),
  local: z.string().describe('In the time zone of the schedule, such as `2026-03-29T02:30`.'),
  utc_offset: z.string().describe('Offset of the local time from UTC, such as `+02:00`.'),
  dst: z
    .enum(['skipped', 'repeated', 'changed'])
    .nullable()
    .describe(
      '`skipped`: a clock change skips this time; `repeated`: the time occurs twice and runs the first time; `changed`: the first run after the UTC offset changed.',
    ),
});

export const previewQuery = z.object({
  cron: z.string().max(400).optional().describe('Five fields: minute, hour, day of month, month, day of week.'),
  cron_expression: z.string().max(400).optional().describe('The same as `cron`.'),
  timezone: z.string().max(100).default('UTC'),
  count: z.int().min(1).max(100).default(10),
  from: requestTime.optional().describe('Start time. Default: now.'),
  ends_at: requestTime.nullish().describe('End time, included. Default: none.'),
  max_runs: maxRuns.nullish().describe('Limits the run times to this number, as `count` does. Default: none.'),
});

export const schedulePreview = z.object({
  cron_expression: z.string(),
  timezone: z.string(),
  slots: z
    .array(slot)
    .describe(
      '`count` run times, plus the times that clock changes skip; fewer if the next 41 years have no more, or up to `ends_at` and `max_runs`.',
    ),
});

/** Maximum number of slots in one response. */
export const MAX_SLOTS = 2000;

export const upcomingQuery = z.object({
  from: requestTime.optional().describe('Start time. Default: now.'),
  to: requestTime.optional().describe('End time, at most 366 days after `from`. Default: 7 days after `from`.'),
  limit: count.min(1).max(MAX_SLOTS).default(MAX_SLOTS),
});

export const upcoming = z.object({
  from: time,
  to: time,
  slots: z.array(
    slot.extend({
      schedule_id: z.uuid(),
      agent_name: z.string(),
      agent_version: z.string(),
      timezone: z.string(),
      overlap: z
        .enum(['allow', 'skip'])
        .nullable()
        .describe(
          'Whether the previous run is expected to be still running, judging by the duration of the last run: both run, or this one is skipped.',
        ),
    }),
  ),
  is_cut: z
    .boolean()
    .describe('Whether the list is incomplete: more slots than `limit`, or more than 2,000 schedules.'),
});
