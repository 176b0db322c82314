import { sweepHolds } from '#core/billing/credits/ledger.ts';
import { sweepDeliveries } from '#core/outbound/deliveries.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { deliveryListeners } from './listeners.ts';

type DepsOf<Work extends (deps: never, ...rest: never[]) => unknown> = Parameters<Work>[0];

export async function finishLostRuns(deps: DepsOf<typeof sweepLostRuns> & DepsOf<typeof sweepHolds>): Promise<void> {
  await sweepLostRuns(deps);
  // After the runs: a payment is settled by the record of its run.
  await sweepHolds(deps);
}

export const retryDeliveries = (
  deps: DepsOf<typeof sweepDeliveries> & DepsOf<typeof deliveryListeners>,
): Promise<void> => sweepDeliveries(deps, deliveryListeners(deps));
