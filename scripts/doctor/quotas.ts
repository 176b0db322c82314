import { GetAWSDefaultServiceQuotaCommand, GetServiceQuotaCommand } from '@aws-sdk/client-service-quotas';
import { BACKGROUND_FUNCTIONS } from '#core/api/background.ts';
import { routes } from '#core/api/routes.ts';
import { FUNCTION_NAMES } from '#core/http/route.ts';
import type { Stage } from '#lib/config.ts';
import { type Clients, read } from './account.ts';

/** Quotas by their codes in Service Quotas, which never change. */
export const QUOTAS = {
  lambdaConcurrency: { service: 'lambda', code: 'L-B99A9384', name: 'Concurrent executions' },
  microvmRate: { service: 'lambda', code: 'L-535CA9B6', name: 'Rate of RunMicrovm API requests' },
  microvmMemory: { service: 'lambda', code: 'L-CD1C0CC4', name: 'Max allocated memory of MicroVMs' },
  fargate: { service: 'fargate', code: 'L-3032A538', name: 'Fargate On-Demand vCPU resource count' },
  fargateSpot: { service: 'fargate', code: 'L-36FBB829', name: 'Fargate Spot vCPU resource count' },
  armBuilds: {
    service: 'codebuild',
    code: 'L-5ED1D25B',
    name: 'Concurrently running builds for ARM/Small environment',
  },
  vpcs: { service: 'vpc', code: 'L-F678F1CE', name: 'VPCs per Region' },
  internetGateways: { service: 'vpc', code: 'L-A4707A72', name: 'Internet gateways per Region' },
  natGateways: { service: 'vpc', code: 'L-FE5A380F', name: 'NAT gateways per Availability Zone' },
  elasticIps: { service: 'ec2', code: 'L-0263D0A3', name: 'EC2-VPC Elastic IPs' },
  apiRate: { service: 'apigateway', code: 'L-8A5B8E43', name: 'Throttle rate' },
  apiBurst: { service: 'apigateway', code: 'L-CDF5615A', name: 'Throttle burst rate' },
  apiResources: { service: 'apigateway', code: 'L-01C8A9E0', name: 'Resources/Routes per REST/WebSocket API' },
} as const;
export type Quota = (typeof QUOTAS)[keyof typeof QUOTAS];

/** Returns the value that applies to the account. Accounts without a value of their own have AWS's default. */
export async function quotaOf({ quotas }: Clients, { service, code }: Quota): Promise<number> {
  const input = { ServiceCode: service, QuotaCode: code };
  const own = await read('servicequotas:GetServiceQuota', () => quotas.send(new GetServiceQuotaCommand(input)), [
    'NoSuchResourceException',
  ]);
  const found =
    own ??
    (await read('servicequotas:GetAWSDefaultServiceQuota', () =>
      quotas.send(new GetAWSDefaultServiceQuotaCommand(input)),
    ));
  return found!.Quota!.Value!;
}

/** Lambda keeps this many executions for functions without reserved concurrency. */
export const UNRESERVED_EXECUTIONS = 100;
/** Concurrency of an account that AWS has known for a while. */
export const USUAL_EXECUTIONS = 1000;

const cores = (cpu: number): number => cpu / 1024;

/** What a stage takes of the account's quotas. */
export function needsOf(stage: Stage) {
  const { sandbox, services, concurrency } = stage;
  const tasks = sandbox.kind === 'fargate' ? sandbox : undefined;
  const instances = services.kind === 'off' ? undefined : services;
  // A deployment of a service starts new instances beside the old ones.
  const instanceCores = instances ? 2 * cores(instances.cpu) : 0;
  const taskCores = tasks ? cores(tasks.cpu) : 0;
  const networks = [
    ...(tasks && !tasks.vpc ? [{ stack: 'compute', egress: tasks.egress, zones: tasks.zones }] : []),
    ...(instances ? [{ stack: 'services', egress: instances.egress, zones: instances.zones }] : []),
  ];
  return {
    /** The deployment makes a compile cache of each function at the same time. */
    executionsAtOnce: FUNCTION_NAMES.length + BACKGROUND_FUNCTIONS.length,
    reservedExecutions: Object.values(concurrency.reserved).reduce((sum, each) => sum + each, 0),
    /** Processors of Fargate: to work at all, and at the stage's own limit. */
    cores: {
      min: Math.max(tasks?.idle ?? 0, 1) * taskCores + instanceCores,
      max: (tasks?.max ?? 0) * taskCores + instanceCores,
    },
    spotCores: tasks?.spot === 'retried' ? taskCores : 0,
    builds: tasks || instances ? 1 : 0,
    /** Networks that the stacks create. */
    networks,
    apiResources: resourcesOf(routes.map(({ path }) => path)),
  };
}

/** Returns the number of API Gateway's resources: one for each prefix of a path. */
function resourcesOf(paths: readonly string[]): number {
  const prefixes = paths.flatMap((path) => {
    const parts = path.split('/').filter(Boolean);
    return parts.map((_, i) => parts.slice(0, i + 1).join('/'));
  });
  return new Set(['', ...prefixes]).size;
}
