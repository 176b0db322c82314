import { ECSClient } from '@aws-sdk/client-ecs';
import { stopAllTasks } from '#aws/fargate/stop-all-tasks.ts';
import { customResource } from '../custom-resource.ts';
import { host } from '../host.ts';

/** Stops all tasks together with the stack, so that the cluster and its network can be deleted. */
export const handler = customResource({ onDelete: () => stopAllTasks(new ECSClient(), host.config.ecsCluster) });
