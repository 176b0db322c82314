import type { Totals } from '#core/runs/usage/rollup.ts';
import type { Period } from './period.ts';
import type { Rollup } from './rollups.ts';

/** Computes the answers of `core/billing/usage/routes.ts` from roll-ups. */

export const sumOf = (rollups: readonly Rollup[], name: keyof Totals): number =>
  rollups.reduce((sum, { totals }) => sum + (totals[name] ?? 0), 0);

/** Computes model usage for the workspace that paid for it. Authors do not see it for others' runs. */
export const modelsOf = (rollups: readonly Rollup[]) => ({
  input_tokens: sumOf(rollups, 'input_tokens'),
  output_tokens: sumOf(rollups, 'output_tokens'),
  models_usd: sumOf(rollups, 'model_microusd') / 1e6,
});

const nothing = (_: readonly Rollup[]): object => ({});

/**
 * Returns one point for each day of the period, or for each hour that has begun, with `more` computed from its
 * roll-ups.
 */
export function pointsOf<More extends object>(
  rollups: readonly Rollup[],
  period: Period,
  granularity: 'day' | 'hour',
  more: (ofDay: readonly Rollup[]) => More = nothing as never,
) {
  const byDay = Map.groupBy(rollups, (rollup) => rollup.day);
  return period.days.flatMap((day): (ReturnType<typeof point> & Partial<More>)[] => {
    const ofDay = byDay.get(day) ?? [];
    if (granularity === 'day') return [{ ...point(day, ofDay, ''), ...more(ofDay) }];
    return HOURS.map((hour) => ({ hour, date: `${day}T${hour}:00:00Z` }))
      .filter(({ date }) => Date.parse(date) <= period.end)
      .map(({ hour, date }) => point(date, ofDay, `h${hour}_`) as ReturnType<typeof point> & Partial<More>);
  });
}

/** `00` to `23`. */
export const HOURS = Array.from({ length: 24 }, (_, hour) => String(hour).padStart(2, '0'));

function point(date: string, rollups: readonly Rollup[], prefix: string) {
  const sum = (name: string) =>
    rollups.reduce((all, { totals }) => all + ((totals[prefix + name] as number | undefined) ?? 0), 0);
  return { date, calls: sum('calls'), errors: sum('errors'), credits_cents: sum('credits_cents') };
}

/**
 * Sums by agent, most calls first, with `more` computed from its roll-ups. Agents called only by other agents have 0
 * calls.
 */
export function breakdownOf<More extends object>(
  rollups: readonly Rollup[],
  more: (own: readonly Rollup[]) => More = nothing as never,
) {
  return byAgent(rollups)
    .map(({ agent, rollups: own }) => {
      const calls = sumOf(own, 'calls');
      return {
        agent_id: agent.agentId,
        org_slug: agent.agentOrg,
        agent_name: agent.agentName,
        calls,
        errors: sumOf(own, 'errors'),
        avg_duration_ms: calls === 0 ? 0 : Math.round(sumOf(own, 'duration_ms') / calls),
        credits_cents: sumOf(own, 'credits_cents'),
        ...more(own),
      };
    })
    .sort((a, b) => b.calls - a.calls);
}

/** Sums of agents that ran in a sandbox, longest time first. */
export function computeOf(rollups: readonly Rollup[]) {
  return byAgent(rollups)
    .map(({ agent, rollups: own }) => ({
      agent_id: agent.agentId,
      agent_name: agent.agentName,
      executions: sumOf(own, 'executions'),
      compute_seconds: sumOf(own, 'compute_ms') / 1000,
    }))
    .filter(({ executions }) => executions > 0)
    .sort((a, b) => b.compute_seconds - a.compute_seconds);
}

/** Groups roll-ups by agent, over all versions; `agent` is the group's latest roll-up. */
export function byAgent(rollups: readonly Rollup[]) {
  const groups = Map.groupBy(rollups, ({ agentOrg, agentName }) => `${agentOrg}/${agentName}`);
  return [...groups.values()].map((own) => ({ agent: own.at(-1)!, rollups: own }));
}
