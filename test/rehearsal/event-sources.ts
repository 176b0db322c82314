import { randomUUID } from 'node:crypto';
import { DeleteMessageBatchCommand, ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import type { SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { TEST_REGION } from '#test/helpers/aws-account.ts';
import type { QueueReader } from '#test/helpers/fake-lambda-admin.ts';
import type { Assembly } from './assembly.ts';
import type { Lambda } from './lambda.ts';
import { fullArn, regional } from './wire.ts';

export interface EventSources {
  /**
   * Delivers all visible messages to the functions that read the queues, until the queues are empty. Returns the
   * failures.
   */
  deliver(): Promise<SQSRecord[]>;
  readonly readers: readonly QueueReader[];
}

/**
 * Starts Lambda's SQS event source mappings of an assembly; failed messages of a batch stay in the queue.
 *
 * @param clientOf returns a client with the rights of this function
 */
export function startEventSources(
  assembly: Assembly,
  lambda: Lambda,
  clientOf: (functionName: string) => SQSClient,
): EventSources {
  const sources = assembly.of('AWS::Lambda::EventSourceMapping').map(({ properties }) => ({
    source: properties as Source,
    reader: {
      id: randomUUID(),
      functionArn: fullArn(properties.FunctionName, (name) => regional('lambda', `function:${name}`)),
      isEnabled: true,
    },
  }));

  /** Delivers one batch; returns its failures, or `undefined` if the queue is empty. */
  async function deliverBatch({ FunctionName, EventSourceArn, BatchSize = 10, FunctionResponseTypes = [] }: Source) {
    const sqs = clientOf(FunctionName.split(':').at(-1)!);
    const [account, queue] = EventSourceArn.split(':').slice(-2);
    const QueueUrl = `https://sqs.${TEST_REGION}.amazonaws.com/${account}/${queue}`;
    const received = await sqs.send(
      new ReceiveMessageCommand({
        QueueUrl,
        MaxNumberOfMessages: Math.min(BatchSize, 10),
        MessageSystemAttributeNames: ['All'],
      }),
    );
    const messages = received.Messages ?? [];
    if (messages.length === 0) return undefined;
    const event: SQSEvent = {
      Records: messages.map((message) => ({
        messageId: message.MessageId!,
        receiptHandle: message.ReceiptHandle!,
        body: message.Body!,
        attributes: message.Attributes as never,
        messageAttributes: {},
        md5OfBody: message.MD5OfBody!,
        eventSource: 'aws:sqs',
        eventSourceARN: EventSourceArn,
        awsRegion: TEST_REGION,
      })),
    };
    const { payload } = await lambda.invoke(FunctionName, event);
    const answer: SQSBatchResponse | null = JSON.parse(Buffer.concat(await Array.fromAsync(payload)).toString());
    const failed = new Set(
      FunctionResponseTypes.includes('ReportBatchItemFailures')
        ? (answer?.batchItemFailures ?? []).map(({ itemIdentifier }) => itemIdentifier)
        : [],
    );
    const done = messages.filter(({ MessageId }) => !failed.has(MessageId!));
    if (done.length > 0) {
      const Entries = done.map(({ MessageId, ReceiptHandle }) => ({ Id: MessageId!, ReceiptHandle }));
      await sqs.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
    }
    return event.Records.filter(({ messageId }) => failed.has(messageId));
  }

  return {
    async deliver() {
      const failed: SQSRecord[] = [];
      for (const { source, reader } of sources) {
        if (!reader.isEnabled || !source.EventSourceArn.startsWith('arn:aws:sqs:')) continue;
        for (let batch = await deliverBatch(source); batch; batch = await deliverBatch(source)) failed.push(...batch);
      }
      return failed;
    },
    readers: sources.map(({ reader }) => reader),
  };
}

/** Event source mapping in CloudFormation's form. */
interface Source {
  readonly FunctionName: string;
  readonly EventSourceArn: string;
  readonly BatchSize?: number;
  readonly FunctionResponseTypes?: readonly string[];
}
