import { type ApplyDeps, applyServices } from '#core/services/apply.ts';
import { type ReportDeps, takeReports } from '#core/services/reports.ts';
import { keepServices } from '#core/services/sweep.ts';
import type { EcsEvent, EventfulServiceHost } from './ecs-events.ts';

/** On AWS a comparison waits for DynamoDB and takes little processor: docs/scale.md. */
const COMPARED_AT_ONCE = 10;

/** From another function (`wakeServices`), from EventBridge, or from the clock. */
export type KeeperEvent =
  | { readonly service_ids: readonly string[] }
  | EcsEvent
  | { readonly 'detail-type': 'Scheduled Event' };

export type KeeperDeps = ApplyDeps & ReportDeps & { readonly serviceHost: EventfulServiceHost };

/**
 * Does what an event of the function `service-keeper` asks for. Throws if that could not be written: Lambda delivers the
 * event again, and the next minute makes up for what is lost.
 */
export async function onKeeperEvent(deps: KeeperDeps, event: KeeperEvent): Promise<void> {
  if ('service_ids' in event) await applyServices(deps, event.service_ids);
  else if (event['detail-type'] === 'Scheduled Event') await keepServices(deps, COMPARED_AT_ONCE);
  else await takeReports(deps, await deps.serviceHost.reportsOf(event));
}
