import type { Deps } from '#core/ports/deps.ts';
import { type BudgetPolicy, type Forecast, forecast, type Window, windowAt } from './policy.ts';
import { readSpend, type Spend, sumSpend, totalOf } from './spend.ts';

/** State of a policy in its current window. */
export interface Progress {
  readonly window: Window;
  readonly spend: Spend;
  readonly spentMicro: number;
  readonly forecast: Forecast;
  /** Epoch milliseconds at which the spend was read. */
  readonly readAt: number;
}

/** Returns the progress of each policy, in order, from sums that are at most `maxAgeMs` old. Reads the usage once. */
export async function progressOf(
  deps: Pick<Deps, 'runs' | 'clock' | 'config' | 'endedRuns'>,
  workspaceId: string,
  policies: readonly BudgetPolicy[],
  maxAgeMs: number,
): Promise<Progress[]> {
  if (policies.length === 0) return [];
  const now = deps.clock.now();
  const windows = policies.map(({ window }) => windowAt(window, now));
  const { days, at } = await readSpend(deps, workspaceId, Math.min(...windows.map(({ start }) => start)), maxAgeMs);
  return policies.map((policy, i) => {
    const window = windows[i]!;
    const spend = sumSpend(days, window.start, policy.agent);
    const spentMicro = totalOf(spend);
    return { window, spend, spentMicro, forecast: forecast(policy, window, spentMicro, now), readAt: at };
  });
}
