import type { SecretListeners } from '#core/accounts/secrets/listeners.ts';
import { SCHEDULE_ALERT, scheduleAlertListener } from '#core/automation/alerts/schedule-alerts.ts';
import { BUDGET_ALERT, budgetAlertListener } from '#core/billing/budgets/alerts.ts';
import type { BudgetListener } from '#core/billing/budgets/watch.ts';
import type { DeliveryListeners } from '#core/outbound/deliveries.ts';
import type { Deps } from '#core/ports/deps.ts';
import { RUN_END, runEndListener } from '#core/runs/destinations/listener.ts';
import { SERVICE_ALERT, serviceAlertListener } from '#core/services/alerts.ts';
import { pauseServices } from '#core/services/budget-pause.ts';
import { restartUsersOf } from '#core/services/secret-changes.ts';
import { TASK_PUSH, taskPushListener } from '#core/wires/a2a/push-listener.ts';

/** Connect events of lower wings with reactions of higher wings; those of agents are in `agent-listeners.ts`. */
export const secretListeners = (
  deps: Pick<Deps, 'main' | 'clock' | 'ids' | 'config' | 'log' | 'wakeServices'>,
): SecretListeners => ({
  secretChanged: (workspaceId, name) => restartUsersOf(deps, workspaceId, name),
});

export const deliveryListeners = (
  deps: Pick<Deps, 'main' | 'runs' | 'vault' | 'clock' | 'ids' | 'config' | 'log'>,
): DeliveryListeners => ({
  [SCHEDULE_ALERT]: scheduleAlertListener(deps),
  [SERVICE_ALERT]: serviceAlertListener(deps),
  [BUDGET_ALERT]: budgetAlertListener(deps),
  [RUN_END]: runEndListener(deps),
  [TASK_PUSH]: taskPushListener(deps),
});

export const budgetListener = (
  deps: Pick<Deps, 'main' | 'clock' | 'ids' | 'config' | 'wakeServices'>,
): BudgetListener => ({
  pauseServices: (workspaceId, agent, reason) => pauseServices(deps, workspaceId, agent, reason),
});
