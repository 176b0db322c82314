import {
  type Durations,
  durationPercentile,
  joined,
  type Outcomes,
  readOutcomes,
  runsIn,
} from '#core/runs/usage/outcomes.ts';
import type { Period } from './period.ts';
import type { Rollup } from './rollups.ts';
import { byAgent, HOURS, sumOf } from './sums.ts';

/** Maximum number of days with hourly values. */
const HOURLY_DAYS = 7;

/** Computes outcomes and durations of the runs of roll-ups. Rates are percentages; all values are 0 without runs. */
export function countersOf(rollups: readonly Rollup[], days: number) {
  const { runs, failed, timeout, cancelled } = endsOf(rollups);
  const { durations, runMs } = outcomesOf(rollups);
  const all = joined(durations.values());
  const known = runsIn(all);
  const completed = runs - failed - timeout - cancelled;
  return {
    total_runs: runs,
    completed,
    failed,
    timeout,
    cancelled,
    success_rate: percent(completed, runs),
    error_rate: percent(failed + timeout, runs),
    p50_latency_ms: durationPercentile(all, 0.5),
    p95_latency_ms: durationPercentile(all, 0.95),
    avg_latency_ms: known === 0 ? 0 : Math.round(runMs / known),
    runs_per_day: Math.round((runs / days) * 100) / 100,
  };
}

/** Computes the same by agent, over all versions, most runs first. */
export const agentMetricsOf = (rollups: readonly Rollup[], days: number) =>
  byAgent(rollups)
    .map(({ agent, rollups: own }) => {
      const { errors, sources } = outcomesOf(own);
      return {
        agent_name: agent.agentName,
        agent_id: agent.agentId,
        org_slug: agent.agentOrg,
        ...countersOf(own, days),
        top_error: [...errors].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1))[0]?.[0] ?? null,
        trigger_sources: Object.fromEntries([...sources].sort(([, a], [, b]) => b - a)),
      };
    })
    .sort((a, b) => b.total_runs - a.total_runs || (a.agent_name < b.agent_name ? -1 : 1));

/** Returns one entry per day, including days without runs. */
export function dailySeriesOf(rollups: readonly Rollup[], period: Period) {
  const byDay = Map.groupBy(rollups, ({ day }) => day);
  return period.days.map((day) => {
    const ofDay = byDay.get(day) ?? [];
    const { runs, failed, timeout, cancelled } = endsOf(ofDay);
    const { durations } = outcomesOf(ofDay);
    return {
      date: day,
      total_runs: runs,
      completed: runs - failed - timeout - cancelled,
      failed,
      timeout,
      cancelled,
      ...percentilesOf(joined(durations.values())),
    };
  });
}

/** Returns one entry for each hour that has begun in the last 7 days of the period. */
export function hourlySeriesOf(rollups: readonly Rollup[], period: Period) {
  const byDay = Map.groupBy(rollups, ({ day }) => day);
  return period.days.slice(-HOURLY_DAYS).flatMap((day) => {
    const { durations } = outcomesOf(byDay.get(day) ?? []);
    return HOURS.map((hour) => ({ at: `${day}T${hour}:00:00Z`, durations: durations.get(Number(hour)) ?? NONE }))
      .filter(({ at }) => Date.parse(at) <= period.end)
      .map(({ at, durations }) => ({ date: at, total_runs: runsIn(durations), ...percentilesOf(durations) }));
  });
}

const NONE: Durations = new Map();

const percentilesOf = (durations: Durations) => {
  const isKnown = durations.size > 0;
  return {
    p50_latency_ms: isKnown ? durationPercentile(durations, 0.5) : null,
    p95_latency_ms: isKnown ? durationPercentile(durations, 0.95) : null,
  };
};

const endsOf = (rollups: readonly Rollup[]) => ({
  runs: sumOf(rollups, 'runs'),
  failed: sumOf(rollups, 'failed'),
  timeout: sumOf(rollups, 'timeout'),
  cancelled: sumOf(rollups, 'cancelled'),
});

const outcomesOf = (rollups: readonly Rollup[]): Outcomes => readOutcomes(rollups.map(({ totals }) => totals));

const percent = (part: number, all: number): number => (all === 0 ? 0 : Math.round((part / all) * 1e4) / 100);
