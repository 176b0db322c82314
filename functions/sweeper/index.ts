import {
  blobParts,
  handOverParts,
  questionParts,
  tableParts,
  taskPushParts,
  vaultParts,
  wakeParts,
} from '#aws/deps.ts';
import { operatorTelemetryParts } from '#aws/operator-telemetry.ts';
import { finishLostRuns, retryDeliveries, takeBackCanaries, watchBudgets } from '#core/api/sweeps.ts';
import { askForDueRuns } from '#core/execution/durable/ask-for-due-runs.ts';
import { announceEnds } from '#core/runs/destinations/announce.ts';
import { sweepQueues } from '#core/runs/queues/sweep.ts';
import { eraseExpiredSessions } from '#core/runs/sessions/erase.ts';
import { sendTelemetry } from '#core/runs/telemetry/send.ts';
import { createClockHandler } from '../clock.ts';
import { host } from '../host.ts';

const tables = tableParts(host);
const blobs = blobParts(host);
const vault = vaultParts({ ...host, ...tables });
const deps = {
  ...host,
  ...tables,
  ...blobs,
  ...vault,
  ...wakeParts(host),
  ...questionParts({ ...host, ...tables }),
  ...taskPushParts({ ...host, ...tables, ...blobs, ...vault }),
  ...handOverParts(host),
  ...operatorTelemetryParts(host),
};
export const handler = createClockHandler('sweeper', deps, {
  finishLostRuns,
  retryDeliveries,
  sendTelemetry,
  announceEnds,
  eraseExpiredSessions,
  takeBackCanaries,
  watchBudgets,
  resumeRuns: askForDueRuns,
  sweepQueues,
});
