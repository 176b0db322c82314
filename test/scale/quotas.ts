import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseConfig } from '#core/base/config.ts';
import { planOf } from '#core/base/plans.ts';
import { resourcesOf, type Synthesis, synthesise, type Template } from '#test/helpers/templates.ts';
import { stage } from '../../stages/prod.ts';

const AWS = 'https://docs.aws.amazon.com';

/** Default quota of an AWS account in a large Region, with its `source` in AWS's documentation. */
interface Quota {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly source: string;
}

/** Every quota that the model uses. New accounts have lower values, and AWS raises most of them on request. */
export const QUOTAS = {
  partitionWrites: {
    name: 'writes to an item or a partition',
    value: 1000,
    unit: 'write units a second',
    source: `${AWS}/amazondynamodb/latest/developerguide/bp-partition-key-design.html`,
  },
  partitionReads: {
    name: 'reads of an item or a partition',
    value: 3000,
    unit: 'read units a second',
    source: `${AWS}/amazondynamodb/latest/developerguide/bp-partition-key-design.html`,
  },
  tableWrites: {
    name: 'writes to a new table or index',
    value: 4000,
    unit: 'write units a second',
    source: `${AWS}/amazondynamodb/latest/developerguide/warm-throughput-scenarios.html`,
  },
  tableReads: {
    name: 'reads of a new table or index',
    value: 12_000,
    unit: 'read units a second',
    source: `${AWS}/amazondynamodb/latest/developerguide/warm-throughput-scenarios.html`,
  },
  concurrency: {
    name: 'concurrent executions of Lambda',
    value: 1000,
    unit: 'at once',
    source: `${AWS}/lambda/latest/dg/gettingstarted-limits.html`,
  },
  scaling: {
    name: 'new environments of a function',
    value: 1000,
    unit: 'in 10 seconds',
    source: `${AWS}/lambda/latest/dg/scaling-behavior.html`,
  },
  queueReaders: {
    name: 'batches of a queue at first',
    value: 5,
    unit: 'at once',
    source: `${AWS}/lambda/latest/dg/services-sqs-scaling.html`,
  },
  queueReadersAMinute: {
    name: 'further batches of a queue',
    value: 300,
    unit: 'more a minute',
    source: `${AWS}/lambda/latest/dg/services-sqs-scaling.html`,
  },
  schedulerRate: {
    name: 'invocations of EventBridge Scheduler',
    value: 1000,
    unit: 'a second',
    source: `${AWS}/scheduler/latest/UserGuide/scheduler-quotas.html`,
  },
  runTaskRate: {
    name: 'RunTask on Fargate',
    value: 20,
    unit: 'requests a second',
    source: `${AWS}/AmazonECS/latest/userguide/throttling.html`,
  },
  taskRate: {
    name: 'tasks launched on Fargate',
    value: 20,
    unit: 'a second',
    source: `${AWS}/AmazonECS/latest/userguide/throttling.html`,
  },
  taskBurst: {
    name: 'tasks launched on Fargate in a burst',
    value: 100,
    unit: 'at once',
    source: `${AWS}/AmazonECS/latest/userguide/throttling.html`,
  },
  fargateVcpus: {
    name: 'Fargate On-Demand vCPU resource count',
    value: 6,
    unit: 'vCPUs',
    source: `${AWS}/general/latest/gr/ecs-service.html`,
  },
  ecsReads: {
    name: 'DescribeServices and ListServices',
    value: 20,
    unit: 'requests a second',
    source: `${AWS}/AmazonECS/latest/APIReference/request-throttling.html`,
  },
  ecsReadsBurst: {
    name: 'DescribeServices and ListServices in a burst',
    value: 100,
    unit: 'requests',
    source: `${AWS}/AmazonECS/latest/APIReference/request-throttling.html`,
  },
  servicesPerCluster: {
    name: 'services per ECS cluster',
    value: 5000,
    unit: 'services',
    source: `${AWS}/general/latest/gr/ecs-service.html`,
  },
  servicesPerAlb: {
    name: 'services that share a load balancer of an ECS gateway, as Express Mode has it',
    value: 25,
    unit: 'services',
    source: `${AWS}/AmazonECS/latest/developerguide/express-service-work.html`,
  },
  microvmRate: {
    name: 'RunMicrovm',
    value: 5,
    unit: 'a second',
    source: 'docs/microvms.md; the page of Lambda quotas says only that new accounts have less',
  },
} as const satisfies Record<string, Quota>;

/** Limits that the deployed stage sets in its templates. */
export interface StageLimits {
  readonly gatewayRate: number;
  readonly gatewayBurst: number;
  readonly fires: number;
  readonly batchSize: number;
  readonly poolMax: number;
  readonly taskVcpus: number;
  readonly keeperTimeout: number;
  readonly maxAlbs: number;
  readonly serviceAddresses: number;
  readonly instanceVcpus: number;
  readonly reserved: Readonly<Record<string, number>>;
}

/** Measurements and assumptions that the model takes from docs/costs.md. */
interface Assumed {
  /** Duration of a DynamoDB request, in milliseconds. */
  readonly tableMs: number;
  readonly coldStartMs: number;
  readonly ownMs: { readonly calls: number };
  readonly taskStartMs: number;
}

export type Limits = { readonly [Name in keyof typeof QUOTAS]: number } & StageLimits &
  Assumed & {
    readonly planConcurrency: number;
    readonly planConcurrencyMax: number;
    /** Number of overdue schedules that a sweep runs at once: `core/automation/schedules/runs/fire.ts`. */
    readonly sweptAtOnce: number;
  };

const only = (template: Template, type: string, ends = '') =>
  resourcesOf(template, type)
    .map(([, { Properties }]) => Properties)
    .find((each) => ends === '' || each.FunctionName?.endsWith(ends))!;

/** Returns the limits of the stage `prod` from its synthesized templates. */
export function stageLimits(synthesis: Synthesis = synthesise(stage)): StageLimits {
  const { api, compute, services } = synthesis;
  const [settings] = only(api, 'AWS::ApiGateway::Stage').MethodSettings;
  const queue = resourcesOf(api, 'AWS::Lambda::EventSourceMapping')
    .map(([, { Properties }]) => Properties)
    .find(({ ScalingConfig }) => ScalingConfig !== undefined)!;
  const dispatch = only(compute!, 'AWS::Lambda::Function', '-sandbox-dispatch');
  const keeper = only(services!, 'AWS::Lambda::Function', '-service-keeper');
  const gateway = only(services!, 'AWS::ECS::Gateway');
  const subnets = resourcesOf(services!, 'AWS::EC2::Subnet').map(
    ([, { Properties }]) => Properties.CidrBlock as string,
  );
  const { services: chosen } = stage;
  return {
    gatewayRate: settings.ThrottlingRateLimit,
    gatewayBurst: settings.ThrottlingBurstLimit,
    fires: queue.ScalingConfig.MaximumConcurrency,
    batchSize: queue.BatchSize,
    poolMax: Number(dispatch.Environment.Variables.PLATFORM_POOL_MAX),
    taskVcpus: Number(only(compute!, 'AWS::ECS::TaskDefinition').Cpu) / 1024,
    keeperTimeout: keeper.Timeout,
    maxAlbs: gateway.Configuration.HostSharedAlb.MaxAlbCount,
    // AWS reserves five addresses of each subnet: docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html.
    serviceAddresses: subnets.reduce((sum, cidr) => sum + 2 ** (32 - Number(cidr.split('/')[1])) - 5, 0),
    instanceVcpus: chosen.kind === 'off' ? 0 : chosen.cpu / 1024,
    reserved: stage.concurrency.reserved as Record<string, number>,
  };
}

const COSTS = join(import.meta.dirname, '../../docs/costs.md');
/** Assumption of docs/costs.md: `scripts/write-costs.ts`. */
const TABLE_MS = 5;
const TASK_START_MS = 45_000;
const MB_A_PROCESSOR = 1769;
const CALLS_MB = 512;

/** Returns durations of the function `calls` from the tables of docs/costs.md. */
function assumed(): Assumed {
  const page = readFileSync(COSTS, 'utf8');
  const [, requests, ownMs] = /^\| prompt call \| \d+ \| (\d+) \|.* (\d+) ms \|$/m.exec(page) ?? [];
  const [, startMs] = /^\| `calls` \| .* (\d+) ms \|$/m.exec(page) ?? [];
  if (ownMs === undefined || startMs === undefined) throw new Error('docs/costs.md has no times of the function calls');
  return {
    tableMs: TABLE_MS,
    ownMs: { calls: Number(ownMs) - Number(requests) * TABLE_MS },
    coldStartMs: Math.round((Number(startMs) * MB_A_PROCESSOR) / CALLS_MB),
    taskStartMs: TASK_START_MS,
  };
}

export function allLimits(ofStage: StageLimits): Limits {
  const quotas = Object.fromEntries(Object.entries(QUOTAS).map(([name, { value }]) => [name, value]));
  const { plans } = parseConfig({});
  const plan = planOf({ config: { plans, defaultPlan: 'enterprise' } }, {});
  return {
    ...(quotas as { readonly [Name in keyof typeof QUOTAS]: number }),
    ...ofStage,
    ...assumed(),
    planConcurrency: plan.concurrent_calls,
    planConcurrencyMax: 10_000,
    sweptAtOnce: 100,
  };
}
