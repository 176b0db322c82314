import { type ErrorCode, type ErrorExtra, isHostBusy, isPlatformError } from '#core/base/errors.ts';
import type { BootDocument } from '#core/ports/service-host.ts';
import { type ApplyDeps, applyServices } from '#core/services/apply.ts';
import { type BootDeps, bootDocument } from '#core/services/boot.ts';
import { type ReportDeps, takeReports } from '#core/services/reports.ts';
import { keepServices } from '#core/services/sweep.ts';
import type { EcsEvent, EventfulServiceHost } from './ecs-events.ts';

/** Number of concurrent comparisons. They wait for DynamoDB and use little CPU: docs/scale.md. */
const COMPARED_AT_ONCE = 10;

/** Asks for what an instance of a service needs to start. */
export interface BootQuestion {
  readonly boot: { readonly service_id: string; readonly token: string };
}

/** Errors that clients see cross functions in this form. */
export type BootReply =
  | { readonly document: BootDocument }
  | { readonly error: { readonly code: ErrorCode; readonly message: string; readonly extra: ErrorExtra } }
  | { readonly busy: true };

/** An event from another function (`wakeServices`, `askForBoot`), from EventBridge, or from the clock. */
export type KeeperEvent =
  | BootQuestion
  | { readonly service_ids: readonly string[] }
  | EcsEvent
  | { readonly 'detail-type': 'Scheduled Event' };

export type KeeperDeps = ApplyDeps & ReportDeps & BootDeps & { readonly serviceHost: EventfulServiceHost };

/**
 * Handles an event of the function `service-keeper`. Throws if the result could not be written: Lambda then delivers
 * the event again, and the next minute compensates for lost events.
 */
export async function onKeeperEvent(deps: KeeperDeps, event: KeeperEvent): Promise<BootReply | undefined> {
  if ('boot' in event) return replyTo(deps, event);
  if ('service_ids' in event) await applyServices(deps, event.service_ids);
  else if (event['detail-type'] === 'Scheduled Event') await keepServices(deps, COMPARED_AT_ONCE);
  else await takeReports(deps, await deps.serviceHost.reportsOf(event));
  return undefined;
}

/** The token is the only proof of the function that asks: it gets the secrets of this service alone. */
async function replyTo(deps: BootDeps, { boot: { service_id, token } }: BootQuestion): Promise<BootReply> {
  try {
    return { document: await bootDocument(deps, service_id, token) };
  } catch (error) {
    if (isPlatformError(error)) return { error: { code: error.code, message: error.message, extra: error.extra } };
    if (isHostBusy(error)) return { busy: true };
    throw error;
  }
}
