import { httpStatusOf } from '#core/base/errors.ts';
import { dayOf, epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Item, Key, TransactOperation } from '#core/ports/table.ts';
import type { NewRun, RunResult } from './run.ts';

/**
 * Runs table, all written in the transaction that ends a run, so that the sums are those of the runs at any moment:
 *
 * - `WS#<workspace id>#USAGE / <day>#<org>/<agent>#<shard>`: what the workspace ran ({@link Totals});
 * - `WS#<workspace id>#TENANT#<tenant id> / <the same>`: the part of it that one of its tenants caused;
 * - `WS#<workspace id>#TENANTS / <month>#<shard>#<tenant id>`: calls and errors of a tenant by day, to list tenants from;
 * - `WS#<author's workspace id>#AUTHOR_USAGE / <day>#<org>/<agent>#<shard>`: what others ran of the author's agents;
 * - entries of logs, `<started>#<run id>`, where runs are few among many, so that nobody has to look for them in the
 *   workspace's index of runs: `WS#<workspace id>#FAILED_LOG` those that did not complete, `WS#<workspace
 *   id>#TENANT_LOG#<tenant id>` a tenant's, `WS#<author's workspace id>#AUTHOR_LOG` others' of the author's agents, without
 *   whose they were.
 *
 * A run counts on the UTC day, and in the hour, in which it began.
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
 * The sums of an item; what is zero is absent. Beside them `h07_calls`, `h07_errors` and `h07_credits_cents` say how
 * much of it was in the hour from 07:00. `runs` and those that count statuses are of all runs. `calls`, `errors` and
 * `duration_ms` are of calls from outside: a sub-call is part of the call above it. What others run of an author's agents
 * are calls to the author, sub-calls as well.
 */
export interface Totals {
  readonly runs?: number;
  readonly failed?: number;
  readonly timeout?: number;
  readonly cancelled?: number;
  readonly calls?: number;
  /** Calls that did not complete. */
  readonly errors?: number;
  readonly duration_ms?: number;
  /** Runs of agents that have a sandbox, and how long they ran. */
  readonly executions?: number;
  readonly compute_ms?: number;
  readonly input_tokens?: number;
  readonly output_tokens?: number;
  readonly credits_cents?: number;
}

/** A year can be looked back upon, and its first day is whole. */
const KEPT_SECONDS = 400 * 24 * 3600;

/** On AWS one of two transactions that meet on an item is refused: runs of a busy agent spread over this many items. */
const SHARDS = 4;

const shardOf = (runId: string): number => Number.parseInt(runId[0]!, 16) % SHARDS;

/**
 * What a run that ends adds to the roll-ups: one operation for an agent of one's own that completed without a tenant,
 * seven at most. To be written together with the end of the run, see `RunStore.finish`. `endedAt` is in epoch milliseconds, `logTtl` when the
 * run's record expires.
 */
export function usageOperations(
  workspaceId: string,
  run: NewRun,
  result: RunResult,
  endedAt: number,
  logTtl: number,
): TransactOperation[] {
  // Nobody called an installation.
  if (run.triggerSource === 'install') return [];
  const { tenantId, agentWorkspaceId } = run;
  const totals = totalsOf(run, result, endedAt);
  const log = (pk: string, of: NewRun): TransactOperation => ({
    op: 'put',
    item: logItem(pk, of, result, { endedAt, ttl: logTtl }),
  });
  const operations = [add(rollupKey(usagePartition(workspaceId), run), run, totals)];
  if (result.status !== 'completed') operations.push(log(failedLogPartition(workspaceId), run));
  if (tenantId !== undefined) {
    operations.push(
      add(rollupKey(tenantPartition(workspaceId, tenantId), run), run, totals),
      log(tenantLogPartition(workspaceId, tenantId), run),
    );
    if (isCall(run)) operations.push(addToTenant(workspaceId, tenantId, run, result));
  }
  if (agentWorkspaceId !== workspaceId) {
    const forAuthor = { ...run, parentRunId: undefined, tenantId: undefined };
    operations.push(
      add(rollupKey(authorUsagePartition(agentWorkspaceId), run), run, totalsOf(forAuthor, result, endedAt)),
      log(authorLogPartition(agentWorkspaceId), forAuthor),
    );
  }
  return operations;
}

const isCall = (run: NewRun): boolean => run.parentRunId === undefined;

const rollupKey = (pk: string, run: NewRun): Key => ({
  pk,
  sk: `${dayOf(run.startedAt)}#${run.agentOrg}/${run.agentName}#${shardOf(run.id)}`,
});

function totalsOf(run: NewRun, result: RunResult, endedAt: number): Record<string, number> {
  const { status, executionMs, inputTokens = 0, outputTokens = 0, creditsCents } = result;
  const isSandboxed = run.engine === 'code_runtime' || run.engine === 'managed_loop';
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
    credits_cents: creditsCents,
    [`${hour}_credits_cents`]: creditsCents,
  };
}

function add(key: Key, run: NewRun, totals: Record<string, number>): TransactOperation {
  const { agentId, agentOrg, agentName } = run;
  return {
    op: 'update',
    key,
    changes: {
      set: { agent_id: agentId, agent_org: agentOrg, agent_name: agentName, ttl: expiryOf(run) },
      add: Object.fromEntries(Object.entries(totals).filter(([, amount]) => amount !== 0)),
    },
  };
}

function addToTenant(workspaceId: string, tenantId: string, run: NewRun, { status }: RunResult): TransactOperation {
  const startedAt = isoTime(run.startedAt);
  const day = `d${startedAt.slice(8, 10)}`;
  return {
    op: 'update',
    key: { pk: tenantsPartition(workspaceId), sk: `${startedAt.slice(0, 7)}#${shardOf(run.id)}#${tenantId}` },
    changes: {
      // Of the call that ended last, which need not be the one that began last.
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
