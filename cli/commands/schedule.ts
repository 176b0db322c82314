import { EXIT, UsageError } from '#client/usage-error.ts';
import { operations } from '../operation.ts';
import { textOf } from '../shared/output.ts';

const columns = [
  'id',
  'agent_name',
  'agent_version',
  'cron_expression',
  'timezone',
  'enabled',
  'next_run_at',
  'last_run_status',
];
const settings = [
  'cron_expression',
  'timezone',
  'input_data',
  'llm_provider',
  'auto_update',
  'overlap',
  'alert_webhook_url',
  'alert_on_failure_count',
  'max_consecutive_failures',
  'ends_at',
  'max_runs',
  'retry',
  'concurrency',
  'rate',
  'debounce',
];

/** Short options. */
const named = {
  schedule_type: 'type',
  cron_expression: 'cron',
  input_data: 'input',
  llm_provider: 'provider',
  alert_webhook_url: 'alert_url',
  alert_on_failure_count: 'alert_after',
  max_consecutive_failures: 'max_failures',
};

export default operations([
  { name: 'list', operation: 'listSchedules', list: 'schedules', columns, example: 'schedule list' },
  {
    name: 'create',
    operation: 'createSchedule',
    args: ['agent'],
    options: ['schedule_type', ...settings],
    named,
    one: 'schedule',
    example: "schedule create main/hello --cron '0 9 * * 1-5' --timezone Europe/Berlin --input '{}'",
  },
  { name: 'info', operation: 'getSchedule', one: 'schedule', example: 'schedule info hello' },
  {
    name: 'update',
    operation: 'updateSchedule',
    options: ['agent_version', ...settings],
    named,
    one: 'schedule',
    example: "schedule update hello --cron '30 8 * * *'",
  },
  {
    name: 'enable',
    operation: 'updateSchedule',
    summary: 'Enable a schedule',
    fixed: { enabled: true },
    options: [],
    one: 'schedule',
    example: 'schedule enable hello',
  },
  {
    name: 'disable',
    operation: 'updateSchedule',
    summary: 'Disable a schedule',
    fixed: { enabled: false },
    options: [],
    one: 'schedule',
    example: 'schedule disable hello',
  },
  {
    name: 'trigger',
    operation: 'triggerSchedule',
    named: { scheduled_at: 'at' },
    bodyIsInput: true,
    // The platform responds with 200 even if the run failed.
    failure: ({ run_id, status, error }) =>
      status === 'success'
        ? undefined
        : new UsageError(textOf(error ?? `The run ended with status ${status}.`), {
            hint: `Run \`platform logs ${String(run_id).slice(0, 8)}\` to see its output.`,
            exitCode: status === 'timeout' ? EXIT.timeout : EXIT.failed,
          }),
    example: 'schedule trigger hello --at 2026-03-29T03:30',
  },
  {
    name: 'next',
    operation: 'listUpcoming',
    list: 'slots',
    columns: ['local', 'utc_offset', 'timezone', 'agent_name', 'schedule_id', 'dst', 'overlap'],
    example: 'schedule next',
  },
  {
    name: 'preview',
    operation: 'previewSchedule',
    args: ['cron'],
    list: 'slots',
    columns: ['local', 'utc_offset', 'at', 'dst'],
    example: "schedule preview '30 2 * * *' --timezone Europe/Berlin --count 5",
  },
  {
    name: 'runs',
    operation: 'listScheduleRuns',
    list: 'runs',
    columns: ['id', 'status', 'trigger_source', 'started_at', 'duration_ms', 'error_message'],
    example: 'schedule runs hello',
  },
  {
    name: 'events',
    operation: 'listScheduleEvents',
    list: 'events',
    columns: ['created_at', 'event_type', 'message'],
    example: 'schedule events hello',
  },
  {
    name: 'rotate',
    operation: 'regenerateWebhook',
    summary: 'Rotate the URL of a webhook',
    example: 'schedule rotate deliveries',
  },
  { name: 'test-alert', operation: 'sendTestAlert', example: 'schedule test-alert deliveries' },
  {
    name: 'delete',
    operation: 'deleteSchedule',
    confirm: 'Delete the schedule',
    example: 'schedule delete hello --yes',
  },
]);
