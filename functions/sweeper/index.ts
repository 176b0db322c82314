import { blobParts, tableParts } from '#aws/deps.ts';
import { sweepHolds } from '#core/billing/ledger.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { host } from '../host.ts';

const deps = { ...host, ...tableParts(host), ...blobParts(host) };

/** Called every minute. One that fails is followed by the next. */
export async function handler(): Promise<void> {
  await sweepLostRuns(deps);
  await sweepHolds(deps);
}
