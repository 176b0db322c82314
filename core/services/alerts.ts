import {
  type Delivery,
  type DeliveryListener,
  type DeliveryOutcome,
  deliveryOperation,
  newDelivery,
} from '#core/outbound/deliveries.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { TransactOperation } from '#core/ports/table.ts';
import type { NewServiceEvent, Service } from './service.ts';
import { restartsOf } from './state.ts';
import { ServiceStore } from './store.ts';

/** {@link Delivery.kind} of service alerts. The subject is the service. */
export const SERVICE_ALERT = 'service';

/**
 * Returns the alert for a crash loop (`docs/interface/services.md#alerts`); `undefined` if the service has no alert
 * URL.
 */
export function newServiceAlert(
  deps: Pick<Deps, 'ids'>,
  service: Service,
  { isPaused }: { readonly isPaused: boolean },
): Delivery | undefined {
  const { alertWebhookUrl: url, workspaceId, id } = service;
  if (url === null) return undefined;
  const body = {
    event: 'service.crash_loop',
    service_id: id,
    workspace_id: workspaceId,
    service_name: service.name,
    restart_count: restartsOf(service),
    consecutive_restart_failures: service.consecutiveFailures,
    threshold: service.maxRestartFailures,
    auto_paused: isPaused,
    last_error: service.lastError?.message ?? '',
  };
  return newDelivery(deps, { kind: SERVICE_ALERT, workspaceId, subjectId: id, url, body: JSON.stringify(body) });
}

/** Returns the write that makes an alert due, if there is one. */
export const alertOperations = (deps: Pick<Deps, 'clock'>, alert: Delivery | undefined): TransactOperation[] =>
  alert === undefined ? [] : [deliveryOperation(deps, alert)];

/** Records the outcome of each alert in the timeline of its service. */
export const serviceAlertListener = (deps: Pick<Deps, 'main' | 'clock' | 'ids' | 'config'>): DeliveryListener => ({
  async deliveryEnded({ workspaceId, subjectId }, outcome, end) {
    const written = await new ServiceStore(deps, workspaceId).change(subjectId, (service) => ({
      service,
      events: [eventFrom(outcome)],
      alongside: [end],
    }));
    return written !== undefined;
  },
});

function eventFrom(outcome: DeliveryOutcome): NewServiceEvent {
  if (outcome.ok) return { type: 'alert_sent', message: 'Alert sent.' };
  const tries = outcome.tries === 1 ? 'one try' : `${outcome.tries} tries`;
  return { type: 'alert_failed', message: `Alert not sent, after ${tries}: ${outcome.problem}.` };
}
