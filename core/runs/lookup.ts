import type { Json } from '#core/base/json.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { mergedPages } from '#core/ports/merged-query.ts';
import type { Item } from '#core/ports/table.ts';
import { headKey, longRuns, runFrom, runsByTime } from './items.ts';
import type { Run } from './run.ts';
import { failedLogQueries } from './usage/rollup.ts';

/** Reads only heads, for callers without access to blobs. */
type LookupDeps = Pick<Deps, 'runs' | 'clock'>;

/** Longer than any installation, and any run that {@link longRunsOf} does not yield, including its time in a queue. */
export const LONGEST_RUN_MS = 15 * 60_000;
/** Sort key that is greater than any time. */
export const LAST_TIME = '~';
/** Maximum number of records read for a count: AWS bills each read. */
const MAX_COUNTED = 500;

/** Finds a run with its context. The caller must prove that it is that run before it may use the context. */
export async function findRunContext(
  { runs, clock }: LookupDeps,
  workspaceId: string,
  runId: string,
): Promise<{ run: Run; context: Json | undefined } | undefined> {
  const head = await runs.get(headKey(workspaceId, runId));
  return head && { run: runFrom(head, clock.now()), context: head.context };
}

/** Yields the runs of a workspace that started between two times (ISO 8601, inclusive), newest first. */
export async function* runsStartedBetween(
  { runs, clock }: LookupDeps,
  workspaceId: string,
  [from, to]: readonly [string, string],
  pageSize: number,
): AsyncGenerator<Run> {
  const queries = runsByTime(workspaceId).map((query) => ({ ...query, sk: { between: [from, to] as const } }));
  for await (const page of mergedPages(runs, queries, { atOnce: pageSize, reverse: true })) {
    for (const head of page) yield runFrom(head, clock.now());
  }
}

/** Yields the open runs of a workspace that are durable or tried again and may have begun hours ago, newest first. */
export async function* longRunsOf({ runs, clock }: LookupDeps, workspaceId: string): AsyncGenerator<Run> {
  for await (const page of mergedPages(runs, longRuns(workspaceId), { atOnce: 100, reverse: true })) {
    for (const head of page) yield runFrom(head, clock.now());
  }
}

/** Returns the running runs of a workspace, newest first. If `isAll` is false, older runs were not examined. */
export async function openRunsOf(deps: LookupDeps, workspaceId: string): Promise<{ runs: Run[]; isAll: boolean }> {
  const from = isoTime(deps.clock.now() - LONGEST_RUN_MS);
  const { open, isAll } = await recentOpenRuns(deps, workspaceId, from);
  for await (const run of longRunsOf(deps, workspaceId)) {
    if (open.length === MAX_COUNTED) return { runs: open, isAll: false };
    if (run.status === 'running' && run.startedAt < from) open.push(run);
  }
  return { runs: open, isAll };
}

async function recentOpenRuns(deps: LookupDeps, workspaceId: string, from: string) {
  const open: Run[] = [];
  let examined = 0;
  for await (const run of runsStartedBetween(deps, workspaceId, [from, LAST_TIME], 100)) {
    if (examined === MAX_COUNTED) return { open, isAll: false };
    examined += 1;
    if (run.status === 'running') open.push(run);
  }
  return { open, isAll: true };
}

/** A run that failed or timed out. */
export interface FailedRun extends Pick<Run, 'id' | 'agentName' | 'agentVersion' | 'startedAt'> {
  readonly status: 'failed' | 'timeout';
}

/**
 * Returns failed runs of a workspace that started since a time (ISO 8601), newest first. If `isAll` is false, there are
 * more.
 */
export async function failedRunsSince(
  { runs, endedRuns }: LookupDeps & Pick<Deps, 'endedRuns'>,
  workspaceId: string,
  since: string,
): Promise<{ runs: FailedRun[]; isAll: boolean }> {
  await endedRuns?.settle();
  const sk = { greaterThan: since };
  const queries = failedLogQueries(workspaceId).map((query) => ({ ...query, sk }));
  const items: Item[] = [];
  for await (const page of mergedPages(runs, queries, { atOnce: MAX_COUNTED, reverse: true })) {
    items.push(...page);
    if (items.length > MAX_COUNTED) break;
  }
  const found = items.slice(0, MAX_COUNTED).flatMap(({ run_id, agent_name, agent_version, started_at, status }) =>
    status === 'failed' || status === 'timeout'
      ? {
          id: run_id as string,
          agentName: agent_name as string,
          agentVersion: agent_version as string,
          startedAt: started_at as string,
          status: status as FailedRun['status'],
        }
      : [],
  );
  return { runs: found, isAll: items.length <= MAX_COUNTED };
}
