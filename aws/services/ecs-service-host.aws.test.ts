import { randomUUID } from 'node:crypto';
import {
  ApplicationAutoScalingClient,
  DescribeScalableTargetsCommand,
  DescribeScalingPoliciesCommand,
} from '@aws-sdk/client-application-auto-scaling';
import { CloudWatchLogsClient, DescribeLogGroupsCommand } from '@aws-sdk/client-cloudwatch-logs';
import {
  CreateClusterCommand,
  DescribeServicesCommand,
  DescribeTaskDefinitionCommand,
  ECSClient,
  ListTaskDefinitionsCommand,
} from '@aws-sdk/client-ecs';
import {
  CreateListenerCommand,
  CreateLoadBalancerCommand,
  DescribeRulesCommand,
  DescribeTargetGroupsCommand,
  ElasticLoadBalancingV2Client,
} from '@aws-sdk/client-elastic-load-balancing-v2';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { SystemClock } from '#core/ports/clock.ts';
import type { ServiceOrder } from '#core/ports/service-host.ts';
import { serviceHostConformance } from '#test/conformance/service-host.ts';
import { AWS_TEST_ACCOUNT } from '#test/helpers/aws.ts';
import { defaultNetwork, refusal, startAwsFront } from '#test/helpers/aws-front.ts';
import { AlbAddresses } from './alb.ts';
import { EcsServiceHost } from './ecs-service-host.ts';
import { GatewayAddresses } from './gateway.ts';
import type { AlbSettings, GatewaySettings } from './settings.ts';

const moto = inject('awsEndpoints').moto;
const front = await startAwsFront(moto);
afterAll(() => front.close());

const account = { ...AWS_TEST_ACCOUNT, endpoint: front.url, maxAttempts: 4 };
const ecs = new ECSClient(account);
const scaling = new ApplicationAutoScalingClient(account);
const logs = new CloudWatchLogsClient(account);
const elb = new ElasticLoadBalancingV2Client(account);
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const limits = { memoryBytes: 512 * 1024 ** 2, diskBytes: 1024 ** 3, fileBytes: 1024 ** 3, processes: 128 };

const network = await defaultNetwork(moto, AWS_TEST_ACCOUNT.region);
const common = {
  subnets: network.subnets,
  public_ip: true,
  security_group: network.group,
  image: '111122223333.dkr.ecr.us-east-1.amazonaws.com/platform-dev-sandbox:1',
  execution_role: 'arn:aws:iam::111122223333:role/execution',
  family_prefix: 'platform-dev-svc-',
  log_group_prefix: '/platform/dev/services/',
  log_retention_days: 30,
  stage: 'dev',
  cpu: 256,
  memory_mb: 1024,
  api_url: 'https://api.example.com',
};
const gatewaySettings = (cluster: string): GatewaySettings => ({
  ...common,
  cluster,
  kind: 'ecs-gateway',
  gateway: 'arn:aws:ecs:us-east-1:111122223333:gateway/dev',
});

/** Creates a separate cluster, so that lists contain nothing from other tests. */
async function newCluster(): Promise<string> {
  const cluster = `services-${randomUUID()}`;
  await ecs.send(new CreateClusterCommand({ clusterName: cluster }));
  return cluster;
}

const hostOn = (settings: GatewaySettings) =>
  new EcsServiceHost({
    ...{ settings, ecs, scaling, logs },
    addresses: new GatewayAddresses(ecs, settings),
    clock: new SystemClock(),
    log: silent,
  });

async function newHost(change: Partial<GatewaySettings> = {}) {
  const settings = { ...gatewaySettings(await newCluster()), ...change };
  const definitionsOf = async ({ id }: ServiceOrder, status: 'ACTIVE' | 'INACTIVE' = 'ACTIVE') => {
    const command = new ListTaskDefinitionsCommand({ familyPrefix: `platform-dev-svc-${id}`, status });
    return (await ecs.send(command)).taskDefinitionArns!;
  };
  const serviceOf = async ({ id }: ServiceOrder) => {
    const command = new DescribeServicesCommand({ cluster: settings.cluster, services: [id], include: ['TAGS'] });
    return (await ecs.send(command)).services![0]!;
  };
  const targetOf = async ({ id }: ServiceOrder) => {
    const command = new DescribeScalableTargetsCommand({
      ServiceNamespace: 'ecs',
      ResourceIds: [`service/${settings.cluster}/${id}`],
    });
    return (await scaling.send(command)).ScalableTargets![0];
  };
  return { settings, host: hostOn(settings), definitionsOf, serviceOf, targetOf };
}

const newOrder = (change: Partial<ServiceOrder> = {}): ServiceOrder => ({
  id: randomUUID(),
  workspaceId: randomUUID(),
  label: `bot-${randomUUID().slice(0, 6)}`,
  revision: 1,
  token: `made-up-${randomUUID()}`,
  minInstances: 1,
  maxInstances: 1,
  overlap: true,
  limits,
  ...change,
});

const tagsOf = (tags: { key?: string; value?: string }[] = []) =>
  Object.fromEntries(tags.map(({ key, value }) => [key, value]));

/** Emulates the gateway API, which moto lacks. */
beforeAll(() => {
  const arnOf = (id: string) => `arn:aws:ecs:us-east-1:111122223333:gateway-route/dev/${id}`;
  Object.assign(front.actions, {
    ListGatewayRoutes: ({ service, status }: { service?: string; status?: string[] }) => ({
      body: {
        gatewayRoutes:
          service && !status ? [{ gatewayRouteArn: arnOf(service), serviceArn: service, status: 'ACTIVE' }] : [],
      },
    }),
    DescribeGatewayRoute: ({ gatewayRouteArn }: { gatewayRouteArn: string }) => ({
      body: {
        gatewayRoute: { gatewayRouteArn, serviceUrl: `https://${gatewayRouteArn.split('/').at(-1)}.ecs.example.com/` },
      },
    }),
  });
});

describe('EcsServiceHost behind a gateway', () => {
  serviceHostConformance(async () => ({ host: (await newHost()).host, newOrder: async () => newOrder() }));

  test('a service is an ECS service of its id, a task definition with its token, and a log group', async () => {
    const { host, settings, definitionsOf, serviceOf } = await newHost();
    const order = newOrder();
    const asked: object[] = [];
    front.actions.CreateService = (input) => void asked.push(input) as undefined;
    await host.deploy(order);
    delete front.actions.CreateService;
    expect(asked).toEqual([
      {
        cluster: settings.cluster,
        serviceName: order.id,
        taskDefinition: (await definitionsOf(order))[0],
        clientToken: expect.stringMatching(/^[0-9a-f]{36}$/),
        desiredCount: 1,
        launchType: 'FARGATE',
        schedulingStrategy: 'REPLICA',
        deploymentConfiguration: {
          strategy: 'ROLLING',
          minimumHealthyPercent: 100,
          maximumPercent: 200,
          deploymentCircuitBreaker: {
            enable: true,
            rollback: false,
            thresholdConfiguration: { type: 'COUNT', value: 3 },
          },
        },
        healthCheckGracePeriodSeconds: 120,
        availabilityZoneRebalancing: 'DISABLED',
        enableExecuteCommand: false,
        enableECSManagedTags: true,
        propagateTags: 'TASK_DEFINITION',
        networkConfiguration: {
          awsvpcConfiguration: {
            subnets: settings.subnets,
            securityGroups: [settings.security_group],
            assignPublicIp: 'ENABLED',
          },
        },
        gatewayConnectors: [
          {
            portName: 'http',
            healthCheck: {
              healthCheckProtocol: 'HTTP',
              healthCheckPort: 8080,
              healthCheckPath: '/health',
              healthCheckTimeoutSeconds: 5,
              healthCheckIntervalSeconds: 10,
              healthyThresholdCount: 2,
              unhealthyThresholdCount: 3,
            },
          },
        ],
        tags: expect.any(Array),
      },
    ]);
    const { taskDefinition, tags } = await ecs.send(
      new DescribeTaskDefinitionCommand({ taskDefinition: (await definitionsOf(order))[0], include: ['TAGS'] }),
    );
    expect(taskDefinition).toMatchObject({
      family: `platform-dev-svc-${order.id}`,
      networkMode: 'awsvpc',
      cpu: '256',
      memory: '1024',
      executionRoleArn: settings.execution_role,
      containerDefinitions: [
        {
          name: 'runner',
          image: settings.image,
          readonlyRootFilesystem: true,
          portMappings: [{ name: 'http', containerPort: 8080 }],
          environment: [
            { name: 'PLATFORM_RUNNER_SERVICE', value: order.id },
            { name: 'PLATFORM_RUNNER_SERVICE_TOKEN', value: order.token },
            { name: 'PLATFORM_RUNNER_API_URL', value: 'https://api.example.com' },
          ],
          logConfiguration: {
            logDriver: 'awslogs',
            options: { 'awslogs-group': `/platform/dev/services/${order.id}`, mode: 'non-blocking' },
          },
        },
      ],
    });
    expect(taskDefinition).not.toHaveProperty('taskRoleArn');
    const expected = {
      'platform:stage': 'dev',
      'platform:service': order.id,
      'platform:workspace': order.workspaceId,
      'platform:revision': '1',
    };
    expect(tagsOf(tags)).toMatchObject(expected);
    expect(tagsOf((await serviceOf(order)).tags)).toEqual(tagsOf(tags));
    const { logGroups } = await logs.send(
      new DescribeLogGroupsCommand({ logGroupNamePrefix: `/platform/dev/services/${order.id}` }),
    );
    expect(logGroups).toMatchObject([{ retentionInDays: 30 }]);
    expect(await host.address(order)).toBe(`https://${order.id}.ecs.example.com`);
  });

  test('each order has a task definition of its own, and older ones go', async () => {
    const { host, definitionsOf, serviceOf } = await newHost();
    const order = newOrder();
    await host.deploy(order);
    const [first] = await definitionsOf(order);
    await host.update({ ...order, revision: 2, token: 'next', overlap: false });
    const [second, ...others] = await definitionsOf(order);
    expect(others).toEqual([]);
    expect(second).not.toBe(first);
    expect(await definitionsOf(order, 'INACTIVE')).toEqual([]);
    const service = await serviceOf(order);
    expect(service.taskDefinition).toBe(second);
    expect(tagsOf(service.tags)['platform:revision']).toBe('2');
    await host.remove(order);
    expect(await definitionsOf(order)).toEqual([]);
    const { logGroups } = await logs.send(
      new DescribeLogGroupsCommand({ logGroupNamePrefix: `/platform/dev/services/${order.id}` }),
    );
    expect(logGroups).toEqual([]);
  });

  test('a repeated order restarts nothing; a broken-off one is finished', async () => {
    const { host, definitionsOf } = await newHost();
    const order = newOrder();
    await host.deploy(order);
    const before = await definitionsOf(order);
    await host.deploy({ ...order, token: 'another' });
    expect(await definitionsOf(order)).toEqual(before);
    // The response is lost after ECS has made the change; then the function dies before it writes the tag.
    front.actions.TagResource = () => refusal('ServerException', 'no answer');
    await expect(host.update({ ...order, revision: 2 })).rejects.toThrow('no answer');
    delete front.actions.TagResource;
    expect((await Array.fromAsync(host.list()))[0]).toMatchObject({ revision: 1 });
    await host.update({ ...order, revision: 2 });
    expect((await Array.fromAsync(host.list()))[0]).toMatchObject({ revision: 2 });
    expect(await definitionsOf(order)).toHaveLength(1);
  });

  test('a service is made once, though the answer was lost and AWS was busy', async () => {
    const { host, settings } = await newHost();
    const order = newOrder();
    const [answers, tokens] = [['lost'] as const, new Set<string>()];
    let busy = 2;
    let lost = 1;
    front.actions.RegisterTaskDefinition = () =>
      busy-- > 0 ? refusal('ThrottlingException', 'Rate exceeded') : undefined;
    front.actions.CreateService = ({ clientToken }) => {
      tokens.add(clientToken);
      return lost-- > 0 ? answers[0] : undefined;
    };
    await host.deploy(order);
    delete front.actions.RegisterTaskDefinition;
    delete front.actions.CreateService;
    expect([busy < 0, lost < 0, tokens.size]).toEqual([true, true, 1]);
    const { services } = await ecs.send(
      new DescribeServicesCommand({ cluster: settings.cluster, services: [order.id] }),
    );
    expect(services).toHaveLength(1);
  });

  test('AWS chooses a number of instances only while there is a choice and the service runs', async () => {
    const { host, serviceOf, targetOf } = await newHost();
    const order = newOrder({ minInstances: 2, maxInstances: 4 });
    await host.deploy(order);
    expect(await targetOf(order)).toMatchObject({ MinCapacity: 2, MaxCapacity: 4 });
    const { ScalingPolicies } = await scaling.send(
      new DescribeScalingPoliciesCommand({
        ServiceNamespace: 'ecs',
        ResourceId: (await targetOf(order))!.ResourceId,
      }),
    );
    expect(ScalingPolicies).toMatchObject([
      {
        PolicyType: 'TargetTrackingScaling',
        TargetTrackingScalingPolicyConfiguration: {
          TargetValue: 60,
          PredefinedMetricSpecification: { PredefinedMetricType: 'ECSServiceAverageCPUUtilization' },
        },
      },
    ]);
    await host.pause(order);
    expect([await targetOf(order), (await serviceOf(order)).desiredCount]).toEqual([undefined, 0]);
    await host.resume({ ...order, revision: 3 });
    expect([(await targetOf(order))?.MinCapacity, (await serviceOf(order)).desiredCount]).toEqual([2, 2]);
    await host.update({ ...order, revision: 4, minInstances: 1, maxInstances: 1 });
    expect([await targetOf(order), (await serviceOf(order)).desiredCount]).toEqual([undefined, 1]);
  });

  test('with another image, or another size, services are of no revision until they are ordered again', async () => {
    const { host, settings, serviceOf } = await newHost();
    const order = newOrder();
    await host.deploy(order);
    const next = hostOn({ ...settings, image: `${settings.image}2` });
    expect((await Array.fromAsync(next.list()))[0]).toMatchObject({ revision: 0, isPaused: false });
    const before = await serviceOf(order);
    await next.update(order);
    expect((await Array.fromAsync(next.list()))[0]).toMatchObject({ revision: 1 });
    expect((await serviceOf(order)).taskDefinition).not.toBe(before.taskDefinition);
  });

  test('while AWS still deletes a service of the same name, the order is tried again', async () => {
    const { host } = await newHost();
    front.actions.DescribeServices = () => ({ body: { services: [{ status: 'DRAINING' }] } });
    await expect(host.deploy(newOrder())).rejects.toMatchObject({ code: 'SERVICE_HOST', isFinal: false });
    delete front.actions.DescribeServices;
  });

  test('the list has tasks, also such as begin, with the ends and failures that ECS still knows', async () => {
    const { host, settings, serviceOf } = await newHost();
    const order = newOrder();
    await host.deploy(order);
    const { tags, taskDefinition } = await serviceOf(order);
    const arnOf = (id: string) => `arn:aws:ecs:us-east-1:111122223333:task/${settings.cluster}/${id}`;
    const all = [
      { taskArn: arnOf('a'), lastStatus: 'RUNNING', startedAt: 1000, tags, taskDefinitionArn: taskDefinition },
      { taskArn: arnOf('b'), lastStatus: 'PENDING', tags },
      { taskArn: arnOf('c'), lastStatus: 'DEPROVISIONING', startedAt: 1000, tags },
      { taskArn: arnOf('d'), lastStatus: 'RUNNING', startedAt: 1000 },
      {
        taskArn: arnOf('e'),
        lastStatus: 'STOPPED',
        startedAt: 1000,
        stoppedAt: 1060,
        stopCode: 'EssentialContainerExited',
        stoppedReason: 'Essential container in task exited',
        containers: [{ exitCode: 137, reason: 'OutOfMemoryError: Container killed due to memory usage' }],
        tags,
      },
    ];
    const isStopping = ({ lastStatus }: { lastStatus: string }) => /STOPPED|DEPROVISIONING/.test(lastStatus);
    front.actions.ListTasks = ({ desiredStatus }) => ({
      body: {
        taskArns: all
          .filter((task) => isStopping(task) === (desiredStatus === 'STOPPED'))
          .map(({ taskArn }) => taskArn),
      },
    });
    front.actions.DescribeTasks = ({ tasks }) => ({
      body: { tasks: all.filter(({ taskArn }) => tasks.includes(taskArn)) },
    });
    const [hosted] = await Array.fromAsync(host.list());
    expect(hosted!.instances).toEqual([
      { instanceId: 'a', revision: 1, startedAt: 1_000_000 },
      { instanceId: 'b', revision: 1, startedAt: null },
      { instanceId: 'c', revision: 1, startedAt: 1_000_000 },
    ]);
    const end = {
      type: 'ended',
      serviceId: order.id,
      instanceId: 'e',
      revision: 1,
      startedAt: 1_000_000,
      at: 1_060_000,
      reason: 'crashed',
      message: expect.stringMatching(/Exit code 137.*memory/),
    };
    expect(hosted!.reports).toEqual([end]);
    const event = { 'detail-type': 'ECS Task State Change', detail: { taskArn: arnOf('e') } } as const;
    expect(await host.reportsOf(event)).toEqual([end]);
    expect(await host.reportsOf({ ...event, detail: { taskArn: arnOf('a') } })).toEqual([]);
    const service = await serviceOf(order);
    front.actions.DescribeServices = () => ({
      body: {
        services: [
          {
            ...{ ...service, createdAt: 0, events: [] },
            deployments: [{ status: 'PRIMARY', rolloutState: 'FAILED', rolloutStateReason: 'gave up' }],
          },
        ],
      },
    });
    const failed = { type: 'failed', serviceId: order.id, revision: 1, at: expect.any(Number) };
    expect(
      await host.reportsOf({ 'detail-type': 'ECS Deployment State Change', resources: [service.serviceArn!] }),
    ).toEqual([{ ...failed, message: expect.stringContaining('Exit code 137') }]);
    for (const action of ['ListTasks', 'DescribeTasks', 'DescribeServices']) delete front.actions[action];
  });

  test('where there are no gateways, the message says what to do', async () => {
    const { host } = await newHost();
    front.actions.CreateService = () => refusal('UnsupportedFeatureException', 'not in this Region');
    await expect(host.deploy(newOrder())).rejects.toMatchObject({
      isFinal: true,
      message: expect.stringContaining('services.domain'),
    });
    front.actions.CreateService = () => refusal('InvalidParameterException', 'Creation of service was not idempotent.');
    await expect(host.deploy(newOrder())).rejects.not.toHaveProperty('isFinal');
    delete front.actions.CreateService;
  });
});

describe('EcsServiceHost behind a load balancer of the stage', () => {
  async function newAlbHost() {
    const { LoadBalancers } = await elb.send(
      new CreateLoadBalancerCommand({ Name: `lb-${randomUUID().slice(0, 8)}`, Subnets: network.subnets }),
    );
    const { Listeners } = await elb.send(
      new CreateListenerCommand({
        LoadBalancerArn: LoadBalancers![0]!.LoadBalancerArn,
        Port: 80,
        Protocol: 'HTTP',
        DefaultActions: [{ Type: 'fixed-response', FixedResponseConfig: { StatusCode: '503' } }],
      }),
    );
    const settings: AlbSettings = {
      ...{ ...common, kind: 'alb', cluster: await newCluster(), vpc: network.vpc },
      ...{ listener: Listeners![0]!.ListenerArn!, domain: 'services.example.com' },
    };
    const host = new EcsServiceHost({
      ...{ settings, ecs, scaling, logs },
      addresses: new AlbAddresses(elb, settings),
      clock: new SystemClock(),
      log: silent,
    });
    const rules = async () => {
      const found = await elb.send(new DescribeRulesCommand({ ListenerArn: settings.listener }));
      return found.Rules!.filter(({ IsDefault }) => !IsDefault);
    };
    return { host, rules };
  }

  serviceHostConformance(async () => ({ host: (await newAlbHost()).host, newOrder: async () => newOrder() }));

  test('each service has a target group and a rule for its host name, and both go with it', async () => {
    const { host, rules } = await newAlbHost();
    const [one, two, three] = [newOrder(), newOrder(), newOrder()];
    // Deployed concurrently, so that both try to use the same priority.
    await Promise.all([host.deploy(one), host.deploy(two)]);
    await host.deploy(one);
    const priorities = async () => (await rules()).map(({ Priority }) => Priority).sort();
    expect(await priorities()).toEqual(['1', '2']);
    expect(await host.address(one)).toBe(`https://${one.label}.services.example.com`);
    const hosts = (await rules()).flatMap(({ Conditions }) => Conditions![0]!.HostHeaderConfig?.Values ?? []);
    expect(hosts.sort()).toEqual([one, two].map(({ label }) => `${label}.services.example.com`).sort());
    const { TargetGroups } = await elb.send(new DescribeTargetGroupsCommand({ Names: [one.id.replaceAll('-', '')] }));
    expect(TargetGroups).toMatchObject([
      { TargetType: 'ip', Port: 8080, HealthCheckPath: '/health', HealthCheckIntervalSeconds: 10 },
    ]);
    await host.remove({ ...one, label: '' });
    await host.deploy(three);
    expect(await priorities()).toEqual(['1', '2']);
    await Promise.all([host.remove(two), host.remove(three)]);
    expect(await rules()).toEqual([]);
  });
});
