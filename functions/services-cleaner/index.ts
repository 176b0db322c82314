import { ApplicationAutoScalingClient } from '@aws-sdk/client-application-auto-scaling';
import { CloudWatchLogsClient } from '@aws-sdk/client-cloudwatch-logs';
import { ECSClient } from '@aws-sdk/client-ecs';
import { ElasticLoadBalancingV2Client } from '@aws-sdk/client-elastic-load-balancing-v2';
import { cleanerOf } from '#aws/services/cleaner.ts';
import { customResource } from '../custom-resource.ts';
import { host } from '../host.ts';

// It makes many sequential calls, some of which AWS limits to one a second.
const calm = { maxAttempts: 10 };

/** Removes all services together with their stack, so that the cluster, its ingress and its network can be deleted. */
export const handler = customResource(
  cleanerOf({
    ecs: new ECSClient(calm),
    elb: new ElasticLoadBalancingV2Client(calm),
    logs: new CloudWatchLogsClient(calm),
    scaling: new ApplicationAutoScalingClient(calm),
    clock: host.clock,
  }),
);
