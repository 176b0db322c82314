import { ECSClient, type Task } from '@aws-sdk/client-ecs';
import { tableParts } from '#aws/deps.ts';
import { PoolKeeper } from '#aws/fargate/keeper.ts';
import { host } from '../host.ts';

const { config } = host;
const keeper = new PoolKeeper(
  new ECSClient(),
  { ...host, ...tableParts(host) },
  {
    cluster: config.ecsCluster,
    taskDefinition: config.ecsTaskDefinition,
    subnets: config.ecsSubnets,
    hasPublicIp: config.ecsPublicIp,
    securityGroup: config.ecsSecurityGroup,
    idle: config.poolIdle,
    max: config.poolMax,
    startMs: config.poolStartMs,
  },
);

/** An event from EventBridge, or from a call that waits for a sandbox. */
interface KeeperEvent {
  readonly 'detail-type'?: 'ECS Task State Change' | 'Scheduled Event';
  readonly detail?: Task;
  /** Part of the pool in which a call waits, in a pool of several. */
  readonly part?: number;
}

/**
 * Invoked when a task changes its state, every minute, and when a call waits. The next invocation retries after a
 * failure.
 */
export async function handler({ 'detail-type': type, detail, part }: KeeperEvent): Promise<void> {
  if (type === 'Scheduled Event') await keeper.reconcile();
  await keeper.refill(type === 'ECS Task State Change' ? await keeper.onTask(detail!) : part);
}
