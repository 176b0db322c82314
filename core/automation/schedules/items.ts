import type { Deps } from '#core/ports/deps.ts';
import { type Item, queryAll } from '#core/ports/table.ts';
import type { Schedule } from './schedule.ts';

/** Attribute names of the members of a schedule. */
const ATTRIBUTES = {
  id: 'id',
  workspaceId: 'workspace_id',
  agentId: 'agent_id',
  agentWorkspaceId: 'agent_workspace_id',
  agentOrg: 'agent_org',
  agentName: 'agent_name',
  agentVersion: 'agent_version',
  devOf: 'dev_of',
  type: 'schedule_type',
  cronExpression: 'cron_expression',
  timezone: 'timezone',
  input: 'input_data',
  llmProvider: 'llm_provider',
  enabled: 'enabled',
  autoUpdate: 'auto_update',
  overlap: 'overlap',
  webhookSecretHash: 'webhook_secret_hash',
  webhookSecretPreview: 'webhook_secret_preview',
  alertWebhookUrl: 'alert_webhook_url',
  alertOnFailureCount: 'alert_on_failure_count',
  maxConsecutiveFailures: 'max_consecutive_failures',
  consecutiveFailures: 'consecutive_failures',
  autoDisabledAt: 'auto_disabled_at',
  autoDisabledReason: 'auto_disabled_reason',
  endsAt: 'ends_at',
  maxRuns: 'max_runs',
  retry: 'retry',
  concurrency: 'concurrency',
  rate: 'rate',
  debounce: 'debounce',
  endedAt: 'ended_at',
  endedReason: 'ended_reason',
  nextRunAt: 'next_run_at',
  lastRunAt: 'last_run_at',
  lastRunId: 'last_run_id',
  lastRunStatus: 'last_run_status',
  runCount: 'run_count',
  lackedGrants: 'lacked_grants',
  createdBy: 'created_by',
  createdAt: 'created_at',
  updatedAt: 'updated_at',
  deletedAt: 'deleted_at',
} as const satisfies { readonly [Name in keyof Schedule]: string };

const MEMBERS = Object.entries(ATTRIBUTES) as [keyof Schedule, string][];
/** Small, because a single machine reads a page while requests wait. */
const PAGE = 200;
const DIGITS = '0123456789abcdef';

export function scheduleFrom(item: Item): Schedule {
  const schedule: { [member: string]: unknown } = {};
  for (const [member, attribute] of MEMBERS) schedule[member] = item[attribute];
  return schedule as unknown as Schedule;
}

/** Returns the attributes of a schedule's item, without keys. */
export function attributesOf(schedule: Schedule): Omit<Item, 'pk' | 'sk'> {
  const attributes: { [attribute: string]: Schedule[keyof Schedule] } = {};
  for (const [member, attribute] of MEMBERS) attributes[attribute] = schedule[member];
  return attributes;
}

export const metaKey = (scheduleId: string) => ({ pk: `SCHEDULE#${scheduleId}`, sk: 'META' });

/**
 * Lists items of gsi2, which spreads due items over 16 partitions by the first digit of an ID. `until` is compared with
 * the sort key.
 */
export async function* listIndexed<T>(
  main: Deps['main'],
  {
    kind,
    until,
    read,
  }: { readonly kind: 'DUE' | 'OPENRUNS'; readonly until: string; readonly read: (item: Item) => T },
): AsyncGenerator<T> {
  for (const digit of DIGITS) {
    const query = { index: 'gsi2', pk: `${kind}#${digit}`, sk: { lessThan: until }, limit: PAGE } as const;
    for await (const item of queryAll(main, query)) yield read(item);
  }
}
