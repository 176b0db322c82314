import { randomUUID } from 'node:crypto';
import { CreateQueueCommand, ReceiveMessageCommand, SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { expect, inject, test } from 'vitest';
import { AWS_TEST_ACCOUNT } from '#test/helpers/aws.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { fireFromQueue, RETRY_SECONDS, retrySoon } from './timer-queue.ts';

const options = { ...AWS_TEST_ACCOUNT, endpoint: inject('awsEndpoints').moto };
const client = new SQSClient(options);

/** Creates a queue with an invalid message, and returns the message in Lambda's format. */
async function receivedMessage() {
  const QueueName = `fires-${randomUUID()}`;
  const { QueueUrl } = await client.send(
    new CreateQueueCommand({ QueueName, Attributes: { VisibilityTimeout: '660' } }),
  );
  await client.send(new SendMessageCommand({ QueueUrl, MessageBody: 'no JSON' }));
  const { Messages = [] } = await client.send(new ReceiveMessageCommand({ QueueUrl }));
  const { MessageId, ReceiptHandle, Body } = Messages[0]!;
  const eventSourceARN = `arn:aws:sqs:us-east-1:111122223333:${QueueName}`;
  return { QueueUrl, message: { messageId: MessageId!, receiptHandle: ReceiptHandle!, body: Body!, eventSourceARN } };
}

test('a message that failed comes again after half a minute, long before its minute counts as missed', async () => {
  expect(RETRY_SECONDS).toBe(30);
  const { QueueUrl, message } = await receivedMessage();
  const asked: unknown[] = [];
  const deps = memoryDeps();
  const failed = await fireFromQueue(deps, [message]);
  expect(failed).toEqual([message]);
  const log = { ...deps.log, warn: (...said: unknown[]) => void asked.push(said) };
  // The emulator's clock cannot be advanced: one receipt is valid and the other is not.
  await retrySoon({ log }, failed, options);
  expect(asked).toEqual([]);
  await retrySoon({ log }, [{ ...message, receiptHandle: 'unknown' }], options);
  expect(asked).toMatchObject([['failed timer events are redelivered late', { messages: 1 }]]);
  const { Messages = [] } = await client.send(new ReceiveMessageCommand({ QueueUrl }));
  expect(Messages).toEqual([]);
});

test('nothing is asked when nothing failed', async () => {
  await retrySoon(memoryDeps(), [], { ...options, endpoint: 'http://127.0.0.1:1' });
});
