import type { EndStatus } from '#core/base/run-kinds.ts';
import type { Totals } from '#core/runs/usage/rollup.ts';

/** Sums of one agent's runs on one day. Several roll-ups may have the same agent and day and must be added up. */
export interface Rollup {
  /** `2026-11-21`. */
  readonly day: string;
  readonly agentId: string;
  readonly agentOrg: string;
  readonly agentName: string;
  /** The stored item, including its hours and the counts of `core/runs/usage/outcomes.ts`. */
  readonly totals: Totals & { readonly sk: string; readonly [attribute: string]: unknown };
}

/** Returns the number of runs, or of those that ended so. */
export function countOf({ totals }: Rollup, status?: EndStatus): number {
  const { runs = 0, failed = 0, timeout = 0, cancelled = 0 } = totals;
  return { all: runs, completed: runs - failed - timeout - cancelled, failed, timeout, cancelled }[status ?? 'all'];
}
