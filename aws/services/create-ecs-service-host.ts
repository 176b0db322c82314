import { ApplicationAutoScalingClient } from '@aws-sdk/client-application-auto-scaling';
import { CloudWatchLogsClient } from '@aws-sdk/client-cloudwatch-logs';
import { ECSClient } from '@aws-sdk/client-ecs';
import type { Addresses } from './addresses.ts';
import { EcsServiceHost, type EcsServiceHostProps } from './ecs-service-host.ts';
import { GatewayAddresses } from './gateway.ts';
import { parseServiceSettings, type ServiceSettings } from './settings.ts';

/** ECS accepts about one new task definition a second, and a deployment of the stage may renew many services. */
const MAX_ATTEMPTS = 8;

/** Creates the host from the text of its setting, with the environment's Region and credentials. */
export async function createEcsServiceHost(
  text: string,
  { clock, log }: Pick<EcsServiceHostProps, 'clock' | 'log'>,
): Promise<EcsServiceHost> {
  const settings = parseServiceSettings(text);
  const ecs = new ECSClient({ maxAttempts: MAX_ATTEMPTS });
  return new EcsServiceHost({
    settings,
    ecs,
    scaling: new ApplicationAutoScalingClient(),
    logs: new CloudWatchLogsClient(),
    addresses: await addressesOf(settings, ecs),
    clock,
    log,
  });
}

async function addressesOf(settings: ServiceSettings, ecs: ECSClient): Promise<Addresses> {
  if (settings.kind === 'ecs-gateway') return new GatewayAddresses(ecs, settings);
  // Loaded on demand: most stages do not need this client.
  const { createAlbAddresses } = await import('./alb.ts');
  return createAlbAddresses(settings);
}
