import type { SQSClientConfig } from '@aws-sdk/client-sqs';
import * as z from 'zod';
import { fireDue } from '#core/automation/schedules/runs/fire.ts';
import type { Deps } from '#core/ports/deps.ts';

/** JSON message of a timer, written by `EventBridgeTimers`. */
const timerEvent = z.object({
  workspace_id: z.uuid(),
  schedule_id: z.uuid(),
  /** Epoch milliseconds of the due minute. */
  scheduled_time: z.iso.datetime({ offset: true }).transform((text) => Date.parse(text)),
});
export type TimerEvent = z.input<typeof timerEvent>;

interface Message {
  readonly messageId: string;
  readonly body: string;
}

/**
 * Runs the schedules of all messages concurrently, and waits for the runs. One failure does not affect other messages.
 *
 * @returns The messages to deliver again, because they had no effect.
 */
export async function fireFromQueue<Each extends Message>(deps: Deps, messages: readonly Each[]): Promise<Each[]> {
  const ended = await Promise.allSettled(messages.map(({ body }) => fire(deps, body)));
  return ended.flatMap((result, i) => {
    if (result.status === 'fulfilled') return [];
    const message = messages[i]!;
    deps.log.error('timer event failed', { message_id: message.messageId, error: String(result.reason) });
    return [message];
  });
}

/**
 * A run that is five minutes late counts as missed, so a failed message must return sooner than the queue's own
 * timeout.
 */
export const RETRY_SECONDS = 30;

/**
 * Makes failed messages visible again after {@link RETRY_SECONDS}. Never throws: on failure they return after the
 * queue's visibility timeout.
 */
export async function retrySoon(
  { log }: Pick<Deps, 'log'>,
  messages: readonly { readonly messageId: string; readonly receiptHandle: string; readonly eventSourceARN: string }[],
  options: SQSClientConfig = {},
): Promise<void> {
  const [first] = messages;
  if (first === undefined) return;
  try {
    // Loaded on demand: messages seldom fail.
    const { ChangeMessageVisibilityBatchCommand, GetQueueUrlCommand, SQSClient } = await import('@aws-sdk/client-sqs');
    const client = new SQSClient(options);
    const { QueueUrl } = await client.send(
      new GetQueueUrlCommand({ QueueName: first.eventSourceARN.split(':').at(-1) }),
    );
    const Entries = messages.map(({ receiptHandle: ReceiptHandle }, index) => ({
      ...{ Id: String(index), ReceiptHandle, VisibilityTimeout: RETRY_SECONDS },
    }));
    const { Failed = [] } = await client.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl, Entries }));
    if (Failed.length > 0) throw new Error(Failed.map(({ Code }) => Code).join(', '));
  } catch (error) {
    log.warn('failed timer events are redelivered late', { messages: messages.length, error: String(error) });
  }
}

async function fire(deps: Deps, body: string): Promise<void> {
  const event = timerEvent.parse(JSON.parse(body));
  await fireDue(deps, {
    workspaceId: event.workspace_id,
    scheduleId: event.schedule_id,
    scheduledFor: event.scheduled_time,
  });
}
