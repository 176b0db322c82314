import { serviceHostParts, tableParts, vaultParts } from '#aws/deps.ts';
import type { EcsEvent } from '#aws/services/ecs-events.ts';
import { type ApplyDeps, applyServices } from '#core/services/apply.ts';
import { type ReportDeps, takeReports } from '#core/services/reports.ts';
import { keepServices } from '#core/services/sweep.ts';
import { host } from '../host.ts';

const tables = tableParts(host);
const { serviceHost } = serviceHostParts(host);
const deps: ApplyDeps & ReportDeps = {
  ...host,
  ...tables,
  ...vaultParts({ ...host, ...tables }),
  serviceHost,
  wakeServices: (ids) => applyServices(deps, ids),
};

/** From another function (`wakeServices`), from EventBridge, or from the clock. */
type KeeperEvent =
  | { readonly service_ids: readonly string[] }
  | EcsEvent
  | { readonly 'detail-type': 'Scheduled Event' };

/**
 * Called when services change, when an instance has ended or a deployment has failed, and every minute. Lambda delivers an
 * event again whose call failed; the next minute makes up for what is lost.
 */
export async function handler(event: KeeperEvent): Promise<void> {
  if ('service_ids' in event) await applyServices(deps, event.service_ids);
  else if (event['detail-type'] === 'Scheduled Event') await keepServices(deps);
  else await takeReports(deps, await serviceHost.reportsOf(event));
  await host.settled();
}
