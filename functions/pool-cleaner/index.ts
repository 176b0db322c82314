import { ECSClient } from '@aws-sdk/client-ecs';
import { stopAllTasks } from '#aws/fargate/stop-all-tasks.ts';
import { onDelete } from '../custom-resource.ts';
import { host } from '../host.ts';

/** With it goes the pool, so that the cluster and its network can. */
export const handler = onDelete(() => stopAllTasks(new ECSClient(), host.config.ecsCluster));
