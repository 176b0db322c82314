import type * as z from 'zod';
import { isoTime } from '#core/ports/clock.ts';
import { type BudgetPolicy, isDone, limitOf, meetsHardLimit, thresholdsOf, usdOf } from './policy.ts';
import type { Progress } from './progress.ts';
import type { budgetAlertView, budgetView } from './routes.ts';
import type { BudgetAlert } from './store.ts';

/** View of a policy with its spend in the API. */
export function viewOf(
  workspaceId: string,
  policy: BudgetPolicy,
  { window, spend, spentMicro, forecast }: Progress,
): z.input<typeof budgetView> {
  const [soft, hard] = [limitOf(policy, 'soft_limit'), limitOf(policy, 'hard_limit')];
  const share = (limit: number | null) => (limit === null ? null : Math.floor((spentMicro / limit) * 1000) / 10);
  const isHardMet = meetsHardLimit(policy, spentMicro);
  const isSoftMet = soft !== null && spentMicro >= soft;
  return {
    id: policy.id,
    workspace_id: workspaceId,
    scope_type: policy.agent === null ? 'workspace' : 'agent',
    scope_id: policy.scopeId ?? workspaceId,
    agent: policy.agent,
    window: policy.window,
    soft_limit_usd: soft === null ? null : usdOf(soft),
    hard_limit_usd: hard === null ? null : usdOf(hard),
    action_on_hard_limit: policy.action,
    webhook_url: policy.webhookUrl,
    window_start: isoTime(window.start),
    window_end: isoTime(window.end),
    current_spend_usd: usdOf(spentMicro),
    spend: {
      models_usd: usdOf(spend.models),
      credits_usd: usdOf(spend.credits),
      compute_usd: usdOf(spend.compute),
    },
    unpriced_runs: spend.unpricedRuns,
    soft_limit_pct: share(soft),
    hard_limit_pct: share(hard),
    thresholds: thresholdsOf(policy).map(({ name, kind, percent, amountMicro }) => ({
      threshold_kind: kind,
      threshold_pct: percent,
      amount_usd: usdOf(amountMicro),
      alerted: isDone(policy, window.start, name),
    })),
    breach_status: isHardMet ? 'hard_limit' : isSoftMet ? 'soft_limit' : 'none',
    burn_rate_usd_per_day: usdOf(forecast.microPerDay),
    projected_spend_usd: usdOf(forecast.spentMicro),
    projected_breach_at: forecast.breachAt === null ? null : isoTime(forecast.breachAt),
    created_at: isoTime(policy.createdAt),
    updated_at: isoTime(policy.updatedAt),
  };
}

/** Members common to the list of alerts and the posted alert. */
export const alertMembers = (alert: BudgetAlert) => ({
  policy_id: alert.policyId,
  severity: alert.severity,
  message: alert.message,
  threshold_kind: alert.kind,
  threshold_pct: alert.percent,
  current_spend_usd: alert.spentUsd,
  limit_usd: alert.limitUsd,
  burn_rate_usd_per_day: alert.usdPerDay,
  scope_type: alert.agent === null ? ('workspace' as const) : ('agent' as const),
  window: alert.window,
});

export const alertView = (alert: BudgetAlert): z.input<typeof budgetAlertView> => ({
  id: alert.id,
  ...alertMembers(alert),
  agent: alert.agent,
  window_start: isoTime(alert.windowStart),
  delivery: alert.delivery,
  delivery_problem: alert.deliveryProblem,
  created_at: isoTime(alert.createdAt),
});
