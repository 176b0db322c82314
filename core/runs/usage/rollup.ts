import { crc32 } from 'node:zlib';
import { httpStatusOf } from '#core/base/errors.ts';
import { isInstallation } from '#core/base/run-kinds.ts';
import { traitsOf } from '#core/manifest/engines.ts';
import { dayOf, epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Item, Key, Query } from '#core/ports/table.ts';
import { DIGITS } from '../items.ts';
import type { NewRun } from '../run.ts';
import { channelSum } from './channel-calls.ts';
import { costDetails, costTotals } from './costs.ts';
import type { EndedRun, RunUsage } from './ended-run.ts';
import { outcomeDetails, QUARTERS } from './outcomes.ts';
import type { SumChange } from './sum-change.ts';

/**
 * Usage in the runs table, summed from the records of ended runs (`core/billing/usage/sum-ended-runs.ts`):
 *
 * - `WS#<workspace id>#USAGE / <day>#<org>/<agent>#<shard><quarter of the day>`: runs of the workspace ({@link
 * Totals});
 * - `WS#<workspace id>#TENANT#<tenant id> / <the same>`: the part of it that one tenant caused;
 * - `WS#<workspace id>#TENANTS / <month>#<shard>#<tenant id>`: calls and errors of a tenant by day, for listing
 * tenants;
 * - `WS#<author's workspace id>#AUTHOR_USAGE / <the same>`: other workspaces' runs of the author's agents;
 * - log entries, `<started>#<run id>`, for runs that would be hard to find among all runs of a workspace, in a partition
 *   `#<first digit>` for each first digit of a run id:
 *   `WS#<workspace id>#FAILED_LOG` runs that did not complete, `WS#<workspace id>#TENANT_LOG#<tenant id>` runs of a
 * tenant,
 *   `WS#<author's workspace id>#AUTHOR_LOG` other workspaces' runs of the author's agents, without their names.
 *
 * `USAGE` items of the workspace's own agents and all `AUTHOR_USAGE` items include the agent's model costs
 * (`costs.ts`).
 * All `USAGE` items include outcomes and durations of runs (`outcomes.ts`).
 *
 * `WS#<author's workspace id>#CHANNEL#<agent>#<id of the channel> / <revision>#<side>#<shard>` counts runs that a channel led to
 * their version ({@link channelCallsOf}).
 *
 * A run counts in the UTC day and hour in which it started. An item covers six hours, a quarter `a` to `d` of a day, so
 * that it stays below 1 KB: DynamoDB bills each write per started kilobyte.
 */
export const usagePartition = (workspaceId: string): string => `WS#${workspaceId}#USAGE`;
export const tenantPartition = (workspaceId: string, tenantId: string): string =>
  `WS#${workspaceId}#TENANT#${tenantId}`;
export const tenantsPartition = (workspaceId: string): string => `WS#${workspaceId}#TENANTS`;
export const authorUsagePartition = (workspaceId: string): string => `WS#${workspaceId}#AUTHOR_USAGE`;
const failedLog = (workspaceId: string): string => `WS#${workspaceId}#FAILED_LOG`;
const tenantLog = (workspaceId: string, tenantId: string): string => `WS#${workspaceId}#TENANT_LOG#${tenantId}`;
const authorLog = (workspaceId: string): string => `WS#${workspaceId}#AUTHOR_LOG`;

/** Queries for the entries of a log, by start time (`core/ports/merged-query.ts`). */
const queriesOf = (log: string): Query[] => DIGITS.map((digit) => ({ pk: `${log}#${digit}` }));
export const failedLogQueries = (workspaceId: string): Query[] => queriesOf(failedLog(workspaceId));
export const tenantLogQueries = (workspaceId: string, tenantId: string): Query[] =>
  queriesOf(tenantLog(workspaceId, tenantId));
export const authorLogQueries = (workspaceId: string): Query[] => queriesOf(authorLog(workspaceId));

/**
 * Sums of an item; a missing sum is zero. `h07_calls`, `h07_errors` and `h07_credits_cents` beside them are the shares
 * of
 * the hour from 07:00. `runs` and the statuses count all runs. `calls`, `errors` and `duration_ms` count external calls
 * only: a sub-call is part of the call above it. For the author of an agent, other workspaces' sub-calls are calls as
 * well.
 */
export interface Totals {
  readonly runs?: number;
  readonly failed?: number;
  readonly timeout?: number;
  readonly cancelled?: number;
  readonly calls?: number;
  /** Number of calls that did not complete. */
  readonly errors?: number;
  readonly duration_ms?: number;
  /** Runs of agents with a sandbox, and their running time. */
  readonly executions?: number;
  readonly compute_ms?: number;
  readonly input_tokens?: number;
  readonly output_tokens?: number;
  readonly cache_read_tokens?: number;
  readonly cache_write_tokens?: number;
  readonly credits_cents?: number;
  /** Model providers' charges in millionths of a US dollar, as far as prices are known. */
  readonly model_microusd?: number;
  /** Number of runs with an answer of a model without a known price. */
  readonly unpriced_runs?: number;
}

/** More than a year, so that the first day of the year is complete. */
export const KEPT_SECONDS = 400 * 24 * 3600;

/**
 * Number of items that share the runs of a busy agent. Each shard of the feed adds to one of them, so that few
 * transactions meet on an item: DynamoDB rejects one of two concurrent ones.
 */
const SHARDS = 16;

/** Returns the item to which a shard of the feed adds. */
export const sumShardOf = (feedShard: string): string => (crc32(feedShard) % SHARDS).toString(16);

/** What an ended run adds to the usage: at most five sums, and at most three log entries. */
export interface UsageOfRun {
  readonly sums: readonly SumChange[];
  readonly logs: readonly Item[];
}

/** Returns what an ended run adds to the usage of workspaces. `shard` as from {@link sumShardOf}. */
export function usageOf({ workspaceId, run, result, endedAt, ttl }: EndedRun, shard: string): UsageOfRun {
  // An installation is not a call.
  if (isInstallation(run)) return { sums: [], logs: [] };
  const { tenantId, agentWorkspaceId } = run;
  const totals = totalsOf(run, result, endedAt);
  const log = (name: string, of: NewRun): Item => logItem(name, of, result, { endedAt, ttl });
  const sum = (pk: string, amounts: Record<string, number>) => sumOf(rollupKey(pk, run, shard), run, amounts);
  const isOwn = agentWorkspaceId === workspaceId;
  const details = costDetails(result);
  const sums = [
    sum(usagePartition(workspaceId), {
      ...totals,
      ...(isOwn && details),
      ...outcomeDetails(run, result, endedAt),
    }),
  ];
  const logs: Item[] = [];
  if (result.status !== 'completed') logs.push(log(failedLog(workspaceId), run));
  if (tenantId !== undefined) {
    sums.push(sum(tenantPartition(workspaceId, tenantId), totals));
    logs.push(log(tenantLog(workspaceId, tenantId), run));
    if (isCall(run)) sums.push(tenantSum(workspaceId, tenantId, run, result, shard));
  }
  if (!isOwn) {
    const forAuthor = { ...run, parentRunId: undefined, tenantId: undefined };
    sums.push(sum(authorUsagePartition(agentWorkspaceId), { ...totalsOf(forAuthor, result, endedAt), ...details }));
    logs.push(log(authorLog(agentWorkspaceId), forAuthor));
  }
  const ofChannel = channelSum(run, result, shard);
  return { sums: ofChannel === undefined ? sums : [...sums, ofChannel], logs };
}

/** Adds up changes by item; the last of them describes it. */
export function joinSums(all: Iterable<SumChange>): Map<string, SumChange> {
  const joined = new Map<string, SumChange>();
  for (const change of all) {
    const name = sumName(change);
    const before = joined.get(name);
    joined.set(name, before === undefined ? change : joinedSum(before, change));
  }
  return joined;
}

export const sumName = ({ key }: SumChange): string => `${key.pk} ${key.sk}`;

function joinedSum(before: SumChange, { key, set, add }: SumChange): SumChange {
  const amounts: Record<string, number> = { ...before.add };
  for (const name in add) amounts[name] = (amounts[name] ?? 0) + add[name]!;
  return { key, set: { ...set, ttl: Math.max(before.set.ttl as number, set.ttl as number) }, add: amounts };
}

const quarterOf = (time: number): string => QUARTERS[Math.floor(new Date(time).getUTCHours() / 6)]!;

const isCall = (run: NewRun): boolean => run.parentRunId === undefined;

const rollupKey = (pk: string, run: NewRun, shard: string): Key => ({
  pk,
  sk: `${rollupPrefix(dayOf(run.startedAt), `${run.agentOrg}/${run.agentName}`)}${shard}${quarterOf(run.startedAt)}`,
});

/** Common prefix of the sort keys of all roll-ups of an agent (`org/agent`) on a day. */
export const rollupPrefix = (day: string, agent: string): string => `${day}#${agent}#`;

function totalsOf(run: NewRun, result: RunUsage, endedAt: number): Record<string, number> {
  const { status, executionMs, inputTokens = 0, outputTokens = 0, creditsCents } = result;
  const { cacheReadTokens = 0, cacheWriteTokens = 0 } = result;
  const isSandboxed = traitsOf(run.engine).hasSandbox;
  const isError = status !== 'completed';
  const hour = `h${isoTime(run.startedAt).slice(11, 13)}`;
  return {
    runs: 1,
    ...(isError && { [status]: 1 }),
    ...(isCall(run) && {
      calls: 1,
      errors: Number(isError),
      duration_ms: endedAt - run.startedAt,
      [`${hour}_calls`]: 1,
      [`${hour}_errors`]: Number(isError),
    }),
    ...(isSandboxed && { executions: 1, compute_ms: executionMs ?? 0 }),
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    cache_read_tokens: cacheReadTokens,
    cache_write_tokens: cacheWriteTokens,
    credits_cents: creditsCents,
    ...costTotals(result),
    [`${hour}_credits_cents`]: creditsCents,
  };
}

function sumOf(key: Key, run: NewRun, totals: Record<string, number>): SumChange {
  const { agentId, agentOrg, agentName } = run;
  const add: Record<string, number> = {};
  for (const name in totals) if (totals[name] !== 0) add[name] = totals[name]!;
  return { key, set: { agent_id: agentId, agent_org: agentOrg, agent_name: agentName, ttl: expiryOf(run) }, add };
}

function tenantSum(workspaceId: string, tenantId: string, run: NewRun, { status }: RunUsage, shard: string): SumChange {
  const startedAt = isoTime(run.startedAt);
  const day = `d${startedAt.slice(8, 10)}`;
  return {
    key: { pk: tenantsPartition(workspaceId), sk: `${startedAt.slice(0, 7)}#${shard}#${tenantId}` },
    // Start of the call that ended last; a call that started later may still be running.
    set: { tenant_id: tenantId, last_call_at: startedAt, ttl: expiryOf(run) },
    add: { [`${day}_calls`]: 1, ...(status !== 'completed' && { [`${day}_errors`]: 1 }) },
  };
}

const expiryOf = (run: NewRun): number => epochSeconds(run.startedAt) + KEPT_SECONDS;

function logItem(
  log: string,
  run: NewRun,
  { status, errorCode }: RunUsage,
  { endedAt, ttl }: { readonly endedAt: number; readonly ttl: number },
): Item {
  const startedAt = isoTime(run.startedAt);
  return {
    pk: `${log}#${run.id[0]}`,
    sk: `${startedAt}#${run.id}`,
    run_id: run.id,
    agent_org: run.agentOrg,
    agent_name: run.agentName,
    agent_version: run.agentVersion,
    endpoint: run.endpoint,
    status,
    http_status: httpStatusOf(errorCode),
    duration_ms: endedAt - run.startedAt,
    tenant_id: run.tenantId,
    started_at: startedAt,
    ttl,
  };
}
