import type { WaterfallRun } from './lines.ts';

/** A run in the call tree. */
export interface Called {
  readonly run: WaterfallRun;
  /** Number of ancestors. */
  readonly depth: number;
  /** Provider cost including sub-calls, in US dollars; null if no run has a price. */
  readonly costWithCalls: number | null;
}

/** Lists each run below its caller, in order of their start. */
export function callTree(runs: readonly WaterfallRun[]): Called[] {
  const known = new Set(runs.map(({ run_id }) => run_id));
  const calls = Map.groupBy(runs, ({ run_id, parent_run_id }) =>
    parent_run_id !== null && known.has(parent_run_id) && parent_run_id !== run_id ? parent_run_id : null,
  );
  const listed: { run: WaterfallRun; depth: number }[] = [];
  // Iterative, because chains can be arbitrarily deep.
  const open = (calls.get(null) ?? []).map((run) => ({ run, depth: 0 })).reverse();
  while (open.length > 0) {
    const { run, depth } = open.pop()!;
    listed.push({ run, depth });
    open.push(...(calls.get(run.run_id) ?? []).map((each) => ({ run: each, depth: depth + 1 })).reverse());
  }
  const costs = new Map<string, number | null>();
  // Sums bottom-up: sub-calls are listed after their caller.
  for (const { run } of listed.toReversed()) {
    const parts = [run.cost_usd, ...(calls.get(run.run_id) ?? []).map(({ run_id }) => costs.get(run_id) ?? null)];
    const priced = parts.filter((part) => part !== null);
    costs.set(run.run_id, priced.length === 0 ? null : priced.reduce((sum, part) => sum + part, 0));
  }
  return listed.map((each) => ({ ...each, costWithCalls: costs.get(each.run.run_id)! }));
}
