import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { FakeTask, StartContainer } from '#test/helpers/fake-ecs/tasks.ts';
import { startRunner } from '#test/helpers/runner.ts';
import { asContainer } from '#test/helpers/runner-task.ts';
import type { Logs } from './logs.ts';

export interface ServiceTasks {
  /** Starts the real runner with the environment of a task definition. */
  readonly start: StartContainer;
  close(): Promise<void>;
}

/**
 * Fakes Fargate for tasks of services: the container of their definition, the log driver, and the metadata endpoint
 * with the task's name.
 */
export async function startServiceTasks(logs: Logs): Promise<ServiceTasks> {
  const tasks = new Map<string, FakeTask>();
  const metadata = createServer(({ url = '' }, response) => {
    const [, id = ''] = /^\/v4\/(\w+)\/task$/.exec(url) ?? [];
    const task = tasks.get(id);
    if (task === undefined) return void response.writeHead(404).end();
    const [Family, Revision] = task.taskDefinitionArn.split('/').at(-1)!.split(':');
    const { clusterArn: Cluster, taskArn: TaskARN } = task;
    response.end(JSON.stringify({ Cluster, TaskARN, Family, Revision, LaunchType: 'FARGATE' }));
  });
  metadata.listen(0, '127.0.0.1');
  await once(metadata, 'listening');
  const metadataUrl = `http://127.0.0.1:${(metadata.address() as AddressInfo).port}/v4`;

  return {
    async start(task, address, definition) {
      const id = task.taskArn.split('/').at(-1)!;
      tasks.set(id, task);
      const [container] = definition!.containerDefinitions;
      const { name, environment = [], logConfiguration } = container!;
      const { 'awslogs-group': group = '', 'awslogs-stream-prefix': prefix } = logConfiguration?.options ?? {};
      const stream = await logs.stream(group, `${prefix}/${name}/${id}`).catch((error: Error) => {
        throw new Error(`ResourceInitializationError: failed to validate logger args: ${error.message}`);
      });
      try {
        const variables = Object.fromEntries(environment.map((each) => [each.name, each.value]));
        const runner = await startRunner(
          { ...variables, ECS_CONTAINER_METADATA_URI_V4: `${metadataUrl}/${id}` },
          stream.write,
        );
        void runner.ended.then(() => stream.end());
        return await asContainer(runner, address);
      } catch (error) {
        await stream.end();
        throw error;
      }
    },
    async close() {
      metadata.closeAllConnections();
      metadata.close();
    },
  };
}
