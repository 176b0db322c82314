import type { Config } from '#core/base/config.ts';
import { watchBudgets as watchAllBudgets } from '#core/billing/budgets/watch.ts';
import { sweepHolds } from '#core/billing/credits/ledger.ts';
import { sweepDeliveries } from '#core/outbound/deliveries.ts';
import { blobLifetimes } from '#core/ports/blob-lifetimes.ts';
import type { Clock } from '#core/ports/clock.ts';
import { takeBackCanaries as takeBackAll } from '#core/runs/canaries/take-back.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { budgetListener, deliveryListeners } from './listeners.ts';
import { tellWorkspace } from './tell-workspace.ts';

type DepsOf<Work extends (deps: never, ...rest: never[]) => unknown> = Parameters<Work>[0];

export async function finishLostRuns(deps: DepsOf<typeof sweepLostRuns> & DepsOf<typeof sweepHolds>): Promise<void> {
  await sweepLostRuns(deps);
  // Runs are swept first, because a payment is settled by the record of its run.
  await sweepHolds(deps);
}

export const retryDeliveries = (
  deps: DepsOf<typeof sweepDeliveries> & DepsOf<typeof deliveryListeners>,
): Promise<void> => sweepDeliveries(deps, deliveryListeners(deps));

export const watchBudgets = (deps: DepsOf<typeof watchAllBudgets> & DepsOf<typeof budgetListener>): Promise<void> =>
  watchAllBudgets(deps, budgetListener(deps));

export const takeBackCanaries = (
  deps: DepsOf<typeof takeBackAll> & Parameters<typeof tellWorkspace>[0],
): Promise<void> => takeBackAll(deps, tellWorkspace(deps));

const DAY_MS = 86_400_000;

/** Deletes expired blobs on a host that does not expire them itself. */
export async function deleteExpiredBlobs({
  blobs,
  clock,
  config,
}: {
  readonly blobs: { deleteWrittenBefore(prefix: string, time: number): Promise<void> };
  readonly clock: Clock;
  readonly config: Pick<Config, 'runRetentionDays'>;
}): Promise<void> {
  for (const { prefix, days } of blobLifetimes(config.runRetentionDays)) {
    await blobs.deleteWrittenBefore(prefix, clock.now() - days * DAY_MS);
  }
}
