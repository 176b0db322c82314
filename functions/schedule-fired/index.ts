import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { awsDeps } from '#aws/all-deps.ts';
import { fireFromQueue, retrySoon } from '#aws/timers/timer-queue.ts';
import { host } from '../host.ts';

const deps = awsDeps(host.config);

/** Invoked with messages of EventBridge Scheduler from the queue. Returns those that must be delivered again. */
export async function handler(event: SQSEvent): Promise<SQSBatchResponse> {
  const failed = await fireFromQueue(deps, event.Records);
  await Promise.all([retrySoon(deps, failed), deps.settled()]);
  return { batchItemFailures: failed.map(({ messageId }) => ({ itemIdentifier: messageId })) };
}
