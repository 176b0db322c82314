import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import type { SQSClientConfig } from '@aws-sdk/client-sqs';
import type { DynamoDBRecord } from 'aws-lambda';
import { sumEndedRuns } from '#core/billing/usage/sum-ended-runs.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { FeedRecord, FeedRule } from '#core/ports/feed.ts';
import { runIdOf, workspaceIdOf } from '#core/runs/items.ts';
import { noteForScores } from '#core/runs/online/notes.ts';
import { noteForExport } from '#core/runs/telemetry/backlog.ts';
import { endsRun } from '#core/runs/usage/ended-run.ts';
import type { AwsConfig } from '../config.ts';
import { itemOf } from '../tables/dynamo-table.ts';

/** Batch of a DynamoDB stream. Lambda names the shard only where the trigger has a tumbling window. */
export interface StreamEvent {
  readonly Records: readonly DynamoDBRecord[];
  readonly shardId?: string;
}

/** Streams keep records for a day. */
const POSITION_KEPT_SECONDS = 7 * 24 * 3600;
/** Maximum number of digits of a sequence number, which makes them comparable as text. */
const SEQUENCE_DIGITS = 40;

type StreamDeps = Pick<Deps, 'runs' | 'counters' | 'clock' | 'log' | 'operatorTelemetry'> & {
  readonly config: Pick<AwsConfig, 'sumsDeadQueue'>;
};

/** Adds the ended runs of a batch to the usage, and notes those whose spans are sent, and those that are scored. Runs that cannot be counted go to the dead-letter queue. */
export async function sumFromStream(
  deps: StreamDeps,
  { Records, shardId: shard }: StreamEvent,
  options: SQSClientConfig = {},
): Promise<void> {
  const records = feedRecords(Records, endsRun);
  if (records.length === 0) return;
  if (shard === undefined) throw new Error('the batch names no shard: its trigger needs a tumbling window');
  // First, because a batch that fails comes again.
  await noteForExport(deps, shard, records);
  await noteForScores(deps, records);
  await sumEndedRuns(
    deps,
    {
      shard,
      keptSeconds: POSITION_KEPT_SECONDS,
      async onMalformed({ sequence, item }, error) {
        const workspace_id = workspaceIdOf(item);
        const run_id = runIdOf(item);
        deps.log.error('usage of a run not counted', { workspace_id, run_id, error: String(error) });
        await keepAside(deps.config.sumsDeadQueue, { workspace_id, run_id, shard, sequence }, options);
      },
    },
    records,
  );
}

function feedRecords(records: readonly DynamoDBRecord[], rule: FeedRule): FeedRecord[] {
  return records.flatMap(({ eventName, dynamodb }): FeedRecord[] => {
    const { OldImage, NewImage, SequenceNumber } = dynamodb ?? {};
    if (eventName !== 'MODIFY' || OldImage === undefined || NewImage === undefined) return [];
    const item = itemOf(NewImage as Record<string, AttributeValue>);
    if (!rule(itemOf(OldImage as Record<string, AttributeValue>), item)) return [];
    return [{ sequence: SequenceNumber!.padStart(SEQUENCE_DIGITS, '0'), item }];
  });
}

async function keepAside(QueueName: string, message: object, options: SQSClientConfig): Promise<void> {
  // Loaded on demand: records are never malformed, unless the platform has a fault.
  const { GetQueueUrlCommand, SendMessageCommand, SQSClient } = await import('@aws-sdk/client-sqs');
  const client = new SQSClient(options);
  const { QueueUrl } = await client.send(new GetQueueUrlCommand({ QueueName }));
  await client.send(new SendMessageCommand({ QueueUrl, MessageBody: JSON.stringify(message) }));
}
