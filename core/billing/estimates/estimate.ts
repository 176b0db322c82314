import type * as z from 'zod';
import { PRICES_OF } from '#core/models/prices-of.ts';
import { costPercentile, readCosts } from '#core/runs/usage/costs.ts';
import type { Rollup } from '../usage/rollups.ts';
import { sumOf } from '../usage/sums.ts';
import type { estimateRoutes } from './routes.ts';

type Estimate = z.input<(typeof estimateRoutes)[0]['response'][200]>['estimate'];

export const NO_HISTORY: Estimate = { sample_size: 0 };

/**
 * Estimates run costs from roll-ups (`docs/interface/billing.md#estimates`). Runs without a model answer have no cost,
 * and
 * runs with an answer of unknown price no known one: the amounts include neither.
 */
export function estimateOf(rollups: readonly Rollup[], periodDays: number): Estimate {
  const runs = sumOf(rollups, 'runs');
  if (runs === 0) return NO_HISTORY;
  const calls = sumOf(rollups, 'calls');
  const failed = sumOf(rollups, 'failed') + sumOf(rollups, 'timeout') + sumOf(rollups, 'cancelled');
  const costs = readCosts(rollups.map(({ totals }) => totals));
  const bins = new Map<number, number>();
  for (const provider of costs) {
    for (const [bin, count] of provider.bins) bins.set(bin, (bins.get(bin) ?? 0) + count);
  }
  const priced = costs.reduce((sum, each) => sum + each.runs, 0);
  const microUsd = costs.reduce((sum, each) => sum + each.microUsd, 0);
  return {
    sample_size: runs,
    period_days: periodDays,
    ...(priced > 0 && amounts({ runs: priced, microUsd, bins })),
    avg_input_tokens: Math.round(sumOf(rollups, 'input_tokens') / runs),
    avg_output_tokens: Math.round(sumOf(rollups, 'output_tokens') / runs),
    ...(calls > 0 && { avg_duration_ms: Math.round(sumOf(rollups, 'duration_ms') / calls) }),
    success_rate: rounded((runs - failed) / runs),
    unpriced_runs: sumOf(rollups, 'unpriced_runs'),
    providers: costs
      .filter((each) => each.runs > 0)
      .map((each) => ({ provider: each.provider, runs: each.runs, ...amounts(each) })),
    provider_breakdown: costs.flatMap(({ provider, models }) =>
      models
        .toSorted((a, b) => b.microUsd - a.microUsd || b.runs - a.runs)
        .map((each) => ({
          provider,
          model: each.model,
          runs: each.runs,
          total_cost_usd: usd(each.microUsd),
          avg_cost_usd: usd(each.microUsd / each.runs),
        })),
    ),
    prices_of: PRICES_OF,
  };
}

function amounts({ runs, microUsd, bins }: { runs: number; microUsd: number; bins: ReadonlyMap<number, number> }) {
  return {
    avg_cost_usd: usd(microUsd / runs),
    p50_cost_usd: about(costPercentile(bins, 0.5)),
    p95_cost_usd: about(costPercentile(bins, 0.95)),
  };
}

/** Rounds to a thousandth of a millionth of a dollar. */
const usd = (microUsd: number): number => Math.round(microUsd * 1000) / 1e9;
/** Rounds to the accuracy of percentiles. */
const about = (microUsd: number): number => Number((microUsd / 1e6).toPrecision(3));
const rounded = (share: number): number => Math.round(share * 1e4) / 1e4;
