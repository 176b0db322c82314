import { batchesOf } from '#core/base/batches.ts';
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
  channel: 'channel',
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
const DIGITS = [...'0123456789abcdef'];
/** Many schedules are due in the same minute, so their partitions have two digits of an id. */
const PARTITIONS = { DUE: DIGITS.flatMap((first) => DIGITS.map((second) => first + second)), OPENRUNS: DIGITS };
const AT_ONCE = 16;

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

/** Returns the least sort key of the items that {@link listIndexed} lists. */
export async function firstIndexed(main: Deps['main'], kind: keyof typeof PARTITIONS): Promise<string | undefined> {
  let first: string | undefined;
  for (const some of batchesOf(PARTITIONS[kind], AT_ONCE)) {
    const pages = await Promise.all(some.map((of) => main.query({ index: 'gsi2', pk: `${kind}#${of}`, limit: 1 })));
    for (const { gsi2sk } of pages.flatMap(({ items }) => items)) {
      if (first === undefined || gsi2sk! < first) first = gsi2sk!;
    }
  }
  return first;
}

/** Lists items of gsi2, which spreads them over partitions by id. `until` is compared with the sort key. */
export async function* listIndexed<T>(
  main: Deps['main'],
  {
    kind,
    until,
    read,
  }: { readonly kind: keyof typeof PARTITIONS; readonly until: string; readonly read: (item: Item) => T },
): AsyncGenerator<T> {
  const queryOf = (digits: string) =>
    ({ index: 'gsi2', pk: `${kind}#${digits}`, sk: { lessThan: until }, limit: PAGE }) as const;
  for (const some of batchesOf(PARTITIONS[kind], AT_ONCE)) {
    const firsts = await Promise.all(some.map(async (digits) => ({ digits, page: await main.query(queryOf(digits)) })));
    for (const { digits, page } of firsts) {
      for (const item of page.items) yield read(item);
      if (page.cursor === undefined) continue;
      for await (const item of queryAll(main, { ...queryOf(digits), cursor: page.cursor })) yield read(item);
    }
  }
}
