import type { AgentListeners } from '#core/agents/listeners.ts';
import { SCHEDULE_ALERT, scheduleAlertListener } from '#core/automation/alerts/schedule-alerts.ts';
import { moveSchedulesToCurrentVersion } from '#core/automation/schedules/follow-versions.ts';
import type { DeliveryListeners } from '#core/outbound/deliveries.ts';
import type { Deps } from '#core/ports/deps.ts';

/** Connects what changes in a lower wing with what higher wings do about it. */
export const agentListeners = (
  deps: Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'config' | 'log'>,
): AgentListeners => ({
  currentVersionChanged: (agent) => moveSchedulesToCurrentVersion(deps, agent),
});

export const deliveryListeners = (deps: Pick<Deps, 'main' | 'clock' | 'ids' | 'config'>): DeliveryListeners => ({
  [SCHEDULE_ALERT]: scheduleAlertListener(deps),
});
