import { httpStatusOf } from '#core/base/errors.ts';
import { isInstallation } from '#core/base/run-kinds.ts';
import { traitsOf } from '#core/manifest/engines.ts';
import { dayOf, epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Item, Key, TransactOperation } from '#core/ports/table.ts';
import type { NewRun, RunResult } from '../run.ts';
import { costDetails, costTotals } from './costs.ts';
import { outcomeDetails, QUARTERS } from './outcomes.ts';

/**
 * Usage in the runs table, written in the transaction that ends a run, so that the sums always agree with the runs:
 *
 * - `WS#<workspace id>#USAGE / <day>#<org>/<agent>#<shard><quarter of the day>`: runs of the workspace ({@link
 * Totals});
 * - `WS#<workspace id>#TENANT#<tenant id> / <the same>`: the part of it that one tenant caused;
 * - `WS#<workspace id>#TENANTS / <month>#<shard>#<tenant id>`: calls and errors of a tenant by day, for listing
 * tenants;
 * - `WS#<author's workspace id>#AUTHOR_USAGE / <the same>`: other workspaces' runs of the author's agents;
 * - log entries, `<started>#<run id>`, for runs that would be hard to find among all runs of a workspace:
 *   `WS#<workspace id>#FAILED_LOG` runs that did not complete, `WS#<workspace id>#TENANT_LOG#<tenant id>` runs of a
 * tenant,
 *   `WS#<author's workspace id>#AUTHOR_LOG` other workspaces' runs of the author's agents, without their names.
 *
 * `USAGE` items of the workspace's own agents and all `AUTHOR_USAGE` items include the agent's model costs
 * (`costs.ts`).
 * All `USAGE` items include outcomes and durations of runs (`outcomes.ts`).
 *
 * A run counts in the UTC day and hour in which it started. An item covers six hours, a quarter `a` to `d` of a day, so
 * that it stays below 1 KB: DynamoDB bills each write per started kilobyte.
 */
export const usagePartition = (workspaceId: string): string => `WS#${workspaceId}#USAGE`;
export const tenantPartition = (workspaceId: string, tenantId: string): string =>
  `WS#${workspaceId}#TENANT#${tenantId}`;
export const tenantsPartition = (workspaceId: string): string => `WS#${workspaceId}#TENANTS`;
export const authorUsagePartition = (workspaceId: string): string => `WS#${workspaceId}#AUTHOR_USAGE`;
export const failedLogPartition = (workspaceId: string): string => `WS#${workspaceId}#FAILED_LOG`;
export const tenantLogPartition = (workspaceId: string, tenantId: string): string =>
  `WS#${workspaceId}#TENANT_LOG#${tenantId}`;
export const authorLogPartition = (workspaceId: string): string => `WS#${workspaceId}#AUTHOR_LOG`;

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
const KEPT_SECONDS = 400 * 24 * 3600;

/**
 * Number of items that share the runs of a busy agent: DynamoDB rejects one of two concurrent transactions on an item.
 */
const SHARDS = 4;

const shardOf = (runId: string): number => Number.parseInt(runId[0]!, 16) % SHARDS;

/**
 * Returns the operations that add an ended run to the roll-ups, for the transaction that records its end: one for a
 * completed run of an own agent without a tenant, seven at most. `endedAt` in epoch milliseconds; `logTtl` is the
 * expiry
 * of the run's record in epoch seconds.
 */
export function usageOperations(
  workspaceId: string,
  run: NewRun,
  result: RunResult,
  endedAt: number,
  logTtl: number,
): TransactOperation[] {
  // An installation is not a call.
  if (isInstallation(run)) return [];
  const { tenantId, agentWorkspaceId } = run;
  const totals = totalsOf(run, result, endedAt);
  const log = (pk: string, of: NewRun): TransactOperation => ({
    op: 'put',
    item: logItem(pk, of, result, { endedAt, ttl: logTtl }),
  });
  const isOwn = agentWorkspaceId === workspaceId;
  const details = costDetails(result);
  const operations = [
    add(rollupKey(usagePartition(workspaceId), run), run, {
      ...totals,
      ...(isOwn && details),
      ...outcomeDetails(run, result, endedAt),
    }),
  ];
  if (result.status !== 'completed') operations.push(log(failedLogPartition(workspaceId), run));
  if (tenantId !== undefined) {
    operations.push(
      add(rollupKey(tenantPartition(workspaceId, tenantId), run), run, totals),
      log(tenantLogPartition(workspaceId, tenantId), run),
    );
    if (isCall(run)) operations.push(addToTenant(workspaceId, tenantId, run, result));
  }
  if (!isOwn) {
    const forAuthor = { ...run, parentRunId: undefined, tenantId: undefined };
    operations.push(
      add(rollupKey(authorUsagePartition(agentWorkspaceId), run), run, {
        ...totalsOf(forAuthor, result, endedAt),
        ...details,
      }),
      log(authorLogPartition(agentWorkspaceId), forAuthor),
    );
  }
  return operations;
}

const quarterOf = (time: number): string => QUARTERS[Math.floor(new Date(time).getUTCHours() / 6)]!;

const isCall = (run: NewRun): boolean => run.parentRunId === undefined;

const rollupKey = (pk: string, run: NewRun): Key => ({
  pk,
  sk: `${rollupPrefix(dayOf(run.startedAt), `${run.agentOrg}/${run.agentName}`)}${shardOf(run.id)}${quarterOf(run.startedAt)}`,
});

/** Common prefix of the sort keys of all roll-ups of an agent (`org/agent`) on a day. */
export const rollupPrefix = (day: string, agent: string): string => `${day}#${agent}#`;

function totalsOf(run: NewRun, result: RunResult, endedAt: number): Record<string, number> {
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

function add(key: Key, run: NewRun, totals: Record<string, number>): TransactOperation {
  const { agentId, agentOrg, agentName } = run;
  const amounts: Record<string, number> = {};
  for (const name in totals) if (totals[name] !== 0) amounts[name] = totals[name]!;
  const set = { agent_id: agentId, agent_org: agentOrg, agent_name: agentName, ttl: expiryOf(run) };
  return { op: 'update', key, changes: { set, add: amounts } };
}

function addToTenant(workspaceId: string, tenantId: string, run: NewRun, { status }: RunResult): TransactOperation {
  const startedAt = isoTime(run.startedAt);
  const day = `d${startedAt.slice(8, 10)}`;
  return {
    op: 'update',
    key: { pk: tenantsPartition(workspaceId), sk: `${startedAt.slice(0, 7)}#${shardOf(run.id)}#${tenantId}` },
    changes: {
      // Start of the call that ended last; a call that started later may still be running.
      set: { tenant_id: tenantId, last_call_at: startedAt, ttl: expiryOf(run) },
      add: { [`${day}_calls`]: 1, ...(status !== 'completed' && { [`${day}_errors`]: 1 }) },
    },
  };
}

const expiryOf = (run: NewRun): number => epochSeconds(run.startedAt) + KEPT_SECONDS;

function logItem(
  pk: string,
  run: NewRun,
  { status, errorCode }: RunResult,
  { endedAt, ttl }: { readonly endedAt: number; readonly ttl: number },
): Item {
  const startedAt = isoTime(run.startedAt);
  return {
    pk,
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
