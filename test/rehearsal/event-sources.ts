import { randomUUID } from 'node:crypto';
import { DeleteMessageBatchCommand, ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import type { DynamoDBRecord, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { batchesOf } from '#core/base/batches.ts';
import { TEST_REGION } from '#test/helpers/aws-account.ts';
import type { QueueReader } from '#test/helpers/fake-lambda-admin.ts';
import type { StreamReader } from '#test/helpers/stream-reader.ts';
import type { Assembly } from './assembly.ts';
import { inTurn } from './in-turn.ts';
import type { Lambda } from './lambda.ts';
import { fullArn, regional } from './wire.ts';

export interface EventSources {
  /**
   * Delivers all visible messages to the functions that read the queues, until the queues are empty. Returns the
   * failures.
   */
  deliver(): Promise<SQSRecord[]>;
  /** Delivers all records of streams so far. Calls wait for each other, as batches of a shard do. */
  deliverStreams(): Promise<void>;
  readonly readers: readonly QueueReader[];
}

/**
 * Starts Lambda's event source mappings of an assembly. Failed messages of a batch stay in the queue; a failed batch of a
 * stream comes again.
 *
 * @param clientOf returns a client with the rights of this function
 * @param streamOf returns a reader of this stream with the rights of this function
 */
export function startEventSources(
  assembly: Assembly,
  lambda: Lambda,
  clientOf: (functionName: string) => SQSClient,
  streamOf: (functionName: string, streamArn: string) => StreamReader,
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

  const streams = sources
    .filter(({ source }) => source.EventSourceArn.startsWith('arn:aws:dynamodb:'))
    .map(({ source, reader }) => {
      const { FunctionName, EventSourceArn, BatchSize = 100, FilterCriteria } = source;
      const stream = streamOf(FunctionName.split(':').at(-1)!, EventSourceArn);
      const patterns = (FilterCriteria?.Filters ?? []).map(({ Pattern }) => JSON.parse(Pattern) as Pattern);
      return { ...{ source, reader, stream, patterns, batchSize: BatchSize }, left: [] as DynamoDBBatch[] };
    });

  /** Delivers the records of a stream, a batch of a shard after the other. */
  async function deliverStream(own: (typeof streams)[number]): Promise<void> {
    const { source, stream, patterns, batchSize, left } = own;
    for (const { shardId, records } of await stream.read()) {
      const wanted = records.filter((record) => patterns.length === 0 || patterns.some((each) => fits(each, record)));
      left.push(...batchesOf(wanted, batchSize).map((Records) => ({ shardId, Records })));
    }
    const start = new Date(Math.floor(Date.now() / 900_000) * 900_000);
    const window = { start: start.toISOString(), end: new Date(start.getTime() + 900_000).toISOString() };
    for (let batch = left[0]; batch; batch = left[0]) {
      const windowed =
        source.TumblingWindowInSeconds === undefined ? {} : { window, state: {}, shardId: batch.shardId };
      const { payload } = await lambda.invoke(source.FunctionName, { Records: batch.Records, ...windowed });
      const answer = JSON.parse(Buffer.concat(await Array.fromAsync(payload)).toString());
      if ('window' in windowed && answer?.state === undefined) throw new Error('the answer has no state of the window');
      left.shift();
    }
  }

  return {
    deliverStreams: inTurn(async () => {
      await Promise.all(streams.filter(({ reader }) => reader.isEnabled).map(deliverStream));
    }),
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
  readonly TumblingWindowInSeconds?: number;
  readonly FilterCriteria?: { readonly Filters: readonly { readonly Pattern: string }[] };
}

interface DynamoDBBatch {
  readonly shardId: string;
  readonly Records: readonly DynamoDBRecord[];
}

/** A pattern of Lambda's event filters, with the rules that the templates use: values, and whether there is one. */
interface Pattern {
  readonly [member: string]: Pattern | readonly (string | { readonly exists: boolean })[];
}

function fits(pattern: Pattern, value: unknown): boolean {
  return Object.entries(pattern).every(([name, rule]) => {
    const member = (value as Readonly<Record<string, unknown>> | undefined)?.[name];
    if (!Array.isArray(rule)) return fits(rule as Pattern, member);
    return rule.some((each) => (typeof each === 'string' ? each === member : each.exists === (member !== undefined)));
  });
}
