import type { Deps } from '#core/ports/deps.ts';
import type { Table } from '#core/ports/table.ts';
import { releaseSummed } from './under-way.ts';

interface SummedRun {
  readonly at: number;
  readonly agent: string;
  readonly micro: number;
}

/** Maximum age of the sums: calls within this time may still begin after a limit is met, besides those in flight. */
export const MAX_AGE_MS = 1000;
const MAX_WORKSPACES = 10_000;

/** Runs that this process summed recently: sums that it read earlier do not include them. Key: workspace. */
const summed = new WeakMap<Table, Map<string, readonly SummedRun[]>>();

/** Takes runs whose usage is summed off the runs in flight. Safe to repeat. */
export async function releaseSummedRuns(
  deps: Pick<Deps, 'counters' | 'clock'>,
  workspaceId: string,
  runIds: readonly string[],
): Promise<void> {
  const at = deps.clock.now();
  const released = (await releaseSummed(deps, workspaceId, runIds)).map((run) => ({ at, ...run }));
  if (released.length === 0) return;
  const all = summed.get(deps.counters) ?? new Map<string, readonly SummedRun[]>();
  summed.set(deps.counters, all);
  const recent = (all.get(workspaceId) ?? []).filter((each) => at - each.at < MAX_AGE_MS);
  if (all.size >= MAX_WORKSPACES) all.clear();
  all.set(workspaceId, [...recent, ...released]);
}

/** Sums the cost of runs that this process summed after sums were read. */
export function summedAfter(
  counters: Table,
  readAt: number,
  { workspaceId, agent }: { readonly workspaceId: string; readonly agent: string | null },
): number {
  return (summed.get(counters)?.get(workspaceId) ?? [])
    .filter((each) => each.at > readAt && (agent === null || each.agent === agent))
    .reduce((sum, { micro }) => sum + micro, 0);
}
