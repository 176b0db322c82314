import { blobParts, handOverParts, questionParts, tableParts, vaultParts, wakeParts } from '#aws/deps.ts';
import { finishLostRuns, retryDeliveries, watchBudgets } from '#core/api/sweeps.ts';
import { askForDueRuns } from '#core/execution/durable/ask-for-due-runs.ts';
import { announceEnds } from '#core/runs/destinations/announce.ts';
import { sweepQueues } from '#core/runs/queues/sweep.ts';
import { createClockHandler } from '../clock.ts';
import { host } from '../host.ts';

const tables = tableParts(host);
const deps = {
  ...host,
  ...tables,
  ...blobParts(host),
  ...vaultParts({ ...host, ...tables }),
  ...wakeParts(host),
  ...questionParts({ ...host, ...tables }),
  ...handOverParts(host),
};
export const handler = createClockHandler('sweeper', deps, {
  finishLostRuns,
  retryDeliveries,
  announceEnds,
  watchBudgets,
  resumeRuns: askForDueRuns,
  sweepQueues,
});
