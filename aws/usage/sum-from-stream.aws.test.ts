import { randomUUID } from 'node:crypto';
import { CreateQueueCommand, ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import type { DynamoDBRecord } from 'aws-lambda';
import { expect, inject, test } from 'vitest';
import { queryAll } from '#core/ports/table.ts';
import { headKey } from '#core/runs/items.ts';
import { emptyResult, endedWith, type NewRun } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { usagePartition } from '#core/runs/usage/rollup.ts';
import { AWS_TEST_ACCOUNT, newFedTables } from '#test/helpers/aws.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { sumFromStream } from './sum-from-stream.ts';

const options = { ...AWS_TEST_ACCOUNT, endpoint: inject('awsEndpoints').moto };

async function world() {
  const memory = memoryDeps();
  const { stream, endedRuns: _, ...tables } = await newFedTables(memory.clock);
  const deps = { ...memory, ...tables, config: { ...memory.config, sumsDeadQueue: `dead-${randomUUID()}` } };
  const workspaceId = randomUUID();
  const runs = new RunStore(deps, workspaceId);
  return {
    ...{ deps, workspaceId, stream },
    async end(count: number): Promise<string[]> {
      const now = deps.clock.now();
      const ids = Array.from({ length: count }, () => randomUUID());
      await Promise.all(
        ids.map(async (id) => {
          const agent = { agentId: randomUUID(), agentWorkspaceId: workspaceId, agentOrg: 'acme', agentName: 'echo' };
          const run: NewRun = {
            ...{ id, ...agent, agentVersion: 'v1', engine: 'direct_llm', endpoint: 'run', triggerSource: 'api' },
            ...{ startedAt: now, deadline: now + 60_000, input: {} },
          };
          await runs.start(run);
          await runs.finish(run, { ...emptyResult(endedWith(undefined), null), executionMs: 5 });
          // A later change of the record is not another end.
          await runs.noteReplay(id);
          await deps.runs.update(headKey(workspaceId, id), { set: { seen: true } });
        }),
      );
      return ids;
    },
    async counted(): Promise<number> {
      const sums = await Array.fromAsync(queryAll(deps.runs, { pk: usagePartition(workspaceId) }));
      return sums.reduce((sum, { runs: all }) => sum + (all as number), 0);
    },
  };
}

test('records of a real stream count once, in whatever batches they come, and other changes do not count', async () => {
  const { deps, stream, end, counted } = await world();
  await end(25);
  const shards = await stream.read();
  for (const size of [7, 100, 3]) {
    for (const { shardId, records } of shards) {
      for (let from = 0; from < records.length; from += size) {
        await sumFromStream(deps, { shardId, Records: records.slice(from, from + size) });
      }
    }
    expect(await counted()).toBe(25);
  }
  await end(2);
  for (const { shardId, records } of await stream.read()) await sumFromStream(deps, { shardId, Records: records });
  expect(await counted()).toBe(27);
});

test('a malformed record goes to the dead-letter queue, and the others count', async () => {
  const { deps, workspaceId, stream, end, counted } = await world();
  const sqs = new SQSClient(options);
  const { QueueUrl } = await sqs.send(new CreateQueueCommand({ QueueName: deps.config.sumsDeadQueue }));
  await end(3);
  const [{ shardId, records } = { shardId: '', records: [] }] = await stream.read();
  const ends = records.filter(({ dynamodb }) => dynamodb?.NewImage?.duration_ms && !dynamodb.OldImage?.duration_ms);
  const broken = ends[1]! as DynamoDBRecord & { dynamodb: { NewImage: Record<string, object> } };
  broken.dynamodb.NewImage.agent_org = { N: '7' };
  await sumFromStream(deps, { shardId, Records: records }, options);
  expect(await counted()).toBe(2);
  const { Messages = [] } = await sqs.send(new ReceiveMessageCommand({ QueueUrl }));
  expect(Messages.map(({ Body }) => JSON.parse(Body!))).toMatchObject([{ workspace_id: workspaceId, shard: shardId }]);
});

test('a batch without the name of its shard is refused, unless it has no ends', async () => {
  const { deps, stream, end, counted } = await world();
  await end(1);
  const [{ records } = { records: [] }] = await stream.read();
  await expect(sumFromStream(deps, { Records: records })).rejects.toThrow('tumbling window');
  await sumFromStream(deps, { Records: [] });
  expect(await counted()).toBe(0);
});
