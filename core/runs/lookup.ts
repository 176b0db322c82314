import type { Json } from '#core/base/json.ts';
import type { Deps } from '#core/ports/deps.ts';
import { queryAll } from '#core/ports/table.ts';
import { headKey, runFrom, runsByTime } from './items.ts';
import type { Run } from './run.ts';

/** Reads of heads alone, for callers without access to blobs. */
type LookupDeps = Pick<Deps, 'runs' | 'clock'>;

/** A run with its context. The caller must prove to be that run before it may use the context. */
export async function findRunContext(
  { runs, clock }: LookupDeps,
  workspaceId: string,
  runId: string,
): Promise<{ run: Run; context: Json | undefined } | undefined> {
  const head = await runs.get(headKey(workspaceId, runId));
  return head && { run: runFrom(head, clock.now()), context: head.context };
}

/** The runs of a workspace that started between two times (ISO 8601, both included), newest first. */
export async function* runsStartedBetween(
  { runs, clock }: LookupDeps,
  workspaceId: string,
  [from, to]: readonly [string, string],
  pageSize: number,
): AsyncGenerator<Run> {
  const query = { ...runsByTime(workspaceId), sk: { between: [from, to] as const }, limit: pageSize };
  for await (const head of queryAll(runs, query)) yield runFrom(head, clock.now());
}
