import { blobParts, tableParts, vaultParts } from '#aws/deps.ts';
import { deliveryListeners } from '#core/api/listeners.ts';
import { sweepHolds } from '#core/billing/credits/ledger.ts';
import { sweepDeliveries } from '#core/outbound/deliveries.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { host } from '../host.ts';

const tables = tableParts(host);
const deps = { ...host, ...tables, ...blobParts(host), ...vaultParts({ ...host, ...tables }) };

/** Called every minute. One that fails is followed by the next. */
export async function handler(): Promise<void> {
  await sweepLostRuns(deps);
  await sweepHolds(deps);
  await sweepDeliveries(deps, deliveryListeners(deps));
}
