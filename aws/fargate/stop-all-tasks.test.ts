import { ECSClient, RunTaskCommand } from '@aws-sdk/client-ecs';
import { expect, onTestFinished, test } from 'vitest';
import { startFakeEcs } from '#test/helpers/fake-ecs/fake-ecs.ts';
import { stopAllTasks } from './stop-all-tasks.ts';

const CLUSTER = 'sandboxes';
const DEFINITION = 'arn:aws:ecs:eu-west-1:111122223333:task-definition/sandbox:1';

async function clusterWith(count: number) {
  const ecs = await startFakeEcs({
    clusters: [CLUSTER],
    taskDefinitions: [DEFINITION],
    async start() {
      const { promise, resolve } = Promise.withResolvers<void>();
      return { exited: promise, kill: () => resolve() };
    },
  });
  onTestFinished(() => ecs.close());
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  const client = new ECSClient({ region: 'eu-west-1', endpoint: ecs.url, credentials });
  for (let task = 0; task < count; task += 1) {
    await client.send(
      new RunTaskCommand({
        cluster: CLUSTER,
        taskDefinition: DEFINITION,
        launchType: 'FARGATE',
        networkConfiguration: { awsvpcConfiguration: { subnets: ['subnet-1'] } },
      }),
    );
  }
  return { ecs, client };
}

test('stops every task of a cluster, and resolves when all are gone', async () => {
  const { ecs, client } = await clusterWith(3);
  await stopAllTasks(client, CLUSTER);
  expect(ecs.tasks.map(({ lastStatus }) => lastStatus)).toEqual(['STOPPED', 'STOPPED', 'STOPPED']);
});

test('does nothing without tasks', async () => {
  const { ecs, client } = await clusterWith(0);
  await stopAllTasks(client, CLUSTER);
  expect(ecs.requests).toEqual(['ListTasks']);
});

test('throws when a task cannot be stopped', async () => {
  const { client } = await clusterWith(0);
  await expect(stopAllTasks(client, 'another')).rejects.toThrow('Cluster not found');
});
