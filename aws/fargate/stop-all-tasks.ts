import { type ECSClient, paginateListTasks, StopTaskCommand, waitUntilTasksStopped } from '@aws-sdk/client-ecs';
import { batchesOf } from '#core/base/batches.ts';

/** Maximum batch size of DescribeTasks. */
const BATCH = 100;
/** A stopped task has at most two minutes to end; then ECS removes its network interface. */
const MAX_WAIT_SECONDS = 240;

/**
 * Stops every task of a cluster and waits until all have ended: CloudFormation deletes neither a cluster with tasks nor
 * a network with their interfaces. Throws if tasks do not end.
 */
export async function stopAllTasks(client: ECSClient, cluster: string): Promise<void> {
  for (;;) {
    const tasks: string[] = [];
    for await (const { taskArns = [] } of paginateListTasks({ client }, { cluster })) tasks.push(...taskArns);
    if (tasks.length === 0) return;
    for (const task of tasks) await client.send(new StopTaskCommand({ cluster, task, reason: 'the stack is deleted' }));
    for (const batch of batchesOf(tasks, BATCH)) {
      await waitUntilTasksStopped({ client, maxWaitTime: MAX_WAIT_SECONDS }, { cluster, tasks: batch });
    }
  }
}
