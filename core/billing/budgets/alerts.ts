import {
  type Delivery,
  type DeliveryDeps,
  type DeliveryListener,
  deliveryOperation,
  newDelivery,
  tryDelivery,
} from '#core/outbound/deliveries.ts';
import type { Deps } from '#core/ports/deps.ts';
import {
  type BudgetPolicy,
  dueThresholds,
  isDone,
  meetsHardLimit,
  PAUSED,
  scopeText,
  type Threshold,
  usdText,
  withDone,
} from './policy.ts';
import { type Progress, progressOf } from './progress.ts';
import { alertName, type BudgetAlert, BudgetStore } from './store.ts';
import { alertMembers } from './view.ts';

/** {@link Delivery.kind} of budget alerts; their subject is the alert's name. */
export const BUDGET_ALERT = 'budget';

export type BudgetDeps = DeliveryDeps & Pick<Deps, 'runs' | 'ids' | 'config'>;

/** Results of checking a workspace's budgets. */
interface Found {
  /** Alerts that are due and have been written. */
  readonly deliveries: readonly Delivery[];
  /** Policies whose services are to be paused, with the start of the current window. */
  readonly toPause: readonly { readonly policy: BudgetPolicy; readonly windowStart: number }[];
}

/**
 * Writes alerts for the thresholds that the spend of a workspace has reached: each once per window, even if several
 * processes check at the same time.
 */
export async function findAlerts(deps: BudgetDeps, workspaceId: string): Promise<Found> {
  const store = new BudgetStore(deps, workspaceId);
  const policies = await store.list();
  const progress = await progressOf(deps, workspaceId, policies, 0);
  const deliveries: Delivery[] = [];
  for (const [i, policy] of policies.entries()) {
    const { window, spentMicro } = progress[i]!;
    for (const { name } of dueThresholds(policy, window.start, spentMicro)) {
      const delivery = await tell(deps, store, { workspaceId, policyId: policy.id, name }, progress[i]!);
      if (delivery) deliveries.push(delivery);
    }
  }
  const toPause = policies
    .map((policy, i) => ({ policy, windowStart: progress[i]!.window.start, spentMicro: progress[i]!.spentMicro }))
    .filter(
      ({ policy, windowStart, spentMicro }) =>
        policy.action === 'pause_service' && meetsHardLimit(policy, spentMicro) && !isDone(policy, windowStart, PAUSED),
    );
  return { deliveries, toPause };
}

/** Writes the alert of a threshold and marks the threshold as alerted. Returns the delivery to post, if any. */
async function tell(
  deps: BudgetDeps,
  store: BudgetStore,
  { workspaceId, policyId, name }: { readonly workspaceId: string; readonly policyId: string; readonly name: string },
  progress: Progress,
): Promise<Delivery | undefined> {
  let delivery: Delivery | undefined;
  const { start } = progress.window;
  const isWritten = await store.change((policies) => {
    const policy = policies.find(({ id }) => id === policyId);
    const threshold = policy && dueThresholds(policy, start, progress.spentMicro).find((due) => due.name === name);
    // Another process was faster, or an owner has changed the policy.
    if (policy === undefined || threshold === undefined) return undefined;
    const alert = newAlert(deps, policy, threshold, progress);
    delivery = deliveryOf(deps, workspaceId, policy, alert);
    return {
      policies: policies.map((each) => (each.id === policyId ? withDone(each, start, name) : each)),
      alongside: [store.alertOperation(alert), ...(delivery ? [deliveryOperation(deps, delivery)] : [])],
    };
  });
  return isWritten ? delivery : undefined;
}

function newAlert(
  { ids, clock }: Pick<Deps, 'ids' | 'clock'>,
  policy: BudgetPolicy,
  { kind, percent, limitMicro }: Threshold,
  { spentMicro, window, spend, forecast }: Progress,
): BudgetAlert {
  const limit = kind === 'hard_limit' ? 'hard' : 'soft';
  const unpriced =
    spend.unpricedRuns === 0
      ? ''
      : ` Runs with unknown model prices, whose cost is not included: ${spend.unpricedRuns}.`;
  return {
    id: ids.uuid(),
    policyId: policy.id,
    severity: severityOf(kind, percent),
    message: `The ${policy.window} spend of ${scopeText(policy)}, $${usdText(spentMicro)}, has reached ${percent}% of its ${limit} limit of $${usdText(limitMicro)}.${unpriced}`,
    kind,
    percent,
    spentUsd: usdText(spentMicro),
    limitUsd: usdText(limitMicro),
    usdPerDay: usdText(forecast.microPerDay),
    agent: policy.agent,
    window: policy.window,
    windowStart: window.start,
    createdAt: clock.now(),
    delivery: policy.webhookUrl === null ? 'none' : 'pending',
    deliveryProblem: null,
  };
}

function severityOf(kind: Threshold['kind'], percent: Threshold['percent']): BudgetAlert['severity'] {
  if (percent === 50 || (percent === 80 && kind === 'soft_limit')) return 'info';
  return kind === 'hard_limit' && percent === 100 ? 'critical' : 'warning';
}

function deliveryOf(
  deps: Pick<Deps, 'ids'>,
  workspaceId: string,
  { webhookUrl: url }: BudgetPolicy,
  alert: BudgetAlert,
): Delivery | undefined {
  if (url === null) return undefined;
  const body = {
    event: 'budget.threshold',
    ...alertMembers(alert),
    workspace_id: workspaceId,
  };
  return newDelivery(deps, {
    kind: BUDGET_ALERT,
    workspaceId,
    subjectId: alertName(alert),
    url,
    body: JSON.stringify(body),
  });
}

/** Records the delivery result of each alert. */
export const budgetAlertListener = (deps: Pick<Deps, 'main' | 'clock'>): DeliveryListener => ({
  async deliveryEnded({ workspaceId, subjectId }, outcome, end) {
    const delivered = new BudgetStore(deps, workspaceId).deliveredOperation(
      subjectId,
      outcome.ok ? null : outcome.problem,
    );
    return (await deps.main.transact([delivered, end])).ok;
  },
});

/** {@link tryDelivery} for budget alerts. */
export const sendAlert = (deps: BudgetDeps, delivery: Delivery): Promise<void> =>
  tryDelivery(deps, delivery, budgetAlertListener(deps));
