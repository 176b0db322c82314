import { type ApplyDeps, applyServices } from '#core/services/apply.ts';
import { type ReportDeps, takeReports } from '#core/services/reports.ts';
import { keepServices } from '#core/services/sweep.ts';
import type { EcsEvent, EventfulServiceHost } from './ecs-events.ts';

/** Number of concurrent comparisons. They wait for DynamoDB and use little CPU: docs/scale.md. */
const COMPARED_AT_ONCE = 10;

/** An event from another function (`wakeServices`), from EventBridge, or from the clock. */
export type KeeperEvent =
  | { readonly service_ids: readonly string[] }
  | EcsEvent
  | { readonly 'detail-type': 'Scheduled Event' };

export type KeeperDeps = ApplyDeps & ReportDeps & { readonly serviceHost: EventfulServiceHost };

/**
 * Handles an event of the function `service-keeper`. Throws if the result could not be written: Lambda then delivers
 * the event again, and the next minute compensates for lost events.
 */
export async function onKeeperEvent(deps: KeeperDeps, event: KeeperEvent): Promise<void> {
  if ('service_ids' in event) await applyServices(deps, event.service_ids);
  else if (event['detail-type'] === 'Scheduled Event') await keepServices(deps, COMPARED_AT_ONCE);
  else await takeReports(deps, await deps.serviceHost.reportsOf(event));
}
