import { once } from 'node:events';
import { createServer } from 'node:http';
import {
  AssociateGatewayWithClusterCommand,
  CreateGatewayCommand,
  CreateServiceCommand,
  type CreateServiceCommandInput,
  DeleteGatewayCommand,
  DeleteServiceCommand,
  DeleteTaskDefinitionsCommand,
  DeregisterTaskDefinitionCommand,
  DescribeGatewayRouteCommand,
  DescribeServicesCommand,
  DescribeTasksCommand,
  DisassociateGatewayFromClusterCommand,
  ECSClient,
  ListGatewayClusterAssociationsCommand,
  ListGatewayRoutesCommand,
  ListServicesCommand,
  ListTasksCommand,
  RegisterTaskDefinitionCommand,
  TagResourceCommand,
  UpdateServiceCommand,
} from '@aws-sdk/client-ecs';
import { expect, onTestFinished, test } from 'vitest';
import { type FakeEvent, startFakeEcs } from './fake-ecs.ts';
import type { FakeTask } from './tasks.ts';

const cluster = 'services';
const GATEWAY = {
  name: 'main',
  infrastructureRoleArn: 'arn:aws:iam::111122223333:role/infrastructure',
  deletionProtection: false,
  configuration: { hostSharedAlb: {} },
};

/** ECS whose containers answer `/health` as `behaviour` says. */
async function setUp(behaviour: { status: number; fails?: boolean; ends?: Promise<void> } = { status: 200 }) {
  const events: FakeEvent[] = [];
  const signals: string[] = [];
  const ecs = await startFakeEcs({
    clusters: [cluster],
    taskDefinitions: [],
    onEvent: (event) => void events.push(event),
    async start(_task, address) {
      if (behaviour.fails) throw new Error('CannotPullContainerError: there is no such image');
      const { status } = behaviour;
      const server = createServer((_, response) => response.writeHead(status).end()).listen(8080, address);
      await once(server, 'listening');
      const { promise: exited, resolve } = Promise.withResolvers<number>();
      return {
        exited,
        kill(signal = 'SIGKILL') {
          signals.push(signal);
          server.closeAllConnections();
          server.close();
          if (signal === 'SIGKILL') resolve(137);
          else void Promise.resolve(behaviour.ends).then(() => resolve(0));
        },
      };
    },
  });
  onTestFinished(() => ecs.close());
  const client = new ECSClient({
    region: 'eu-west-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    endpoint: ecs.url,
    maxAttempts: 1,
  });
  const register = async (variable = 'x') => {
    const { taskDefinition } = await client.send(
      new RegisterTaskDefinitionCommand({
        family: 'svc-a',
        networkMode: 'awsvpc',
        requiresCompatibilities: ['FARGATE'],
        cpu: '256',
        memory: '512',
        containerDefinitions: [
          {
            name: 'runner',
            image: 'runner:1',
            environment: [{ name: 'WORD', value: variable }],
            portMappings: [{ name: 'http', containerPort: 8080 }],
          },
        ],
      }),
    );
    return taskDefinition!.taskDefinitionArn!;
  };
  const create = async (more: Partial<CreateServiceCommandInput> = {}) =>
    client.send(
      new CreateServiceCommand({
        cluster,
        serviceName: 'a',
        taskDefinition: 'svc-a',
        desiredCount: 1,
        launchType: 'FARGATE',
        networkConfiguration: { awsvpcConfiguration: { subnets: ['subnet-1'] } },
        gatewayConnectors: [{ portName: 'http' }],
        healthCheckGracePeriodSeconds: 120,
        propagateTags: 'SERVICE',
        tags: [{ key: 'platform:service', value: 'a' }],
        ...more,
      }),
    );
  const associate = async () => {
    await client.send(new CreateGatewayCommand(GATEWAY));
    await client.send(new AssociateGatewayWithClusterCommand({ gateway: 'main', cluster }));
  };
  const describe = async () =>
    (await client.send(new DescribeServicesCommand({ cluster, services: ['a'], include: ['TAGS'] }))).services![0]!;
  const running = (): FakeTask[] => ecs.tasks.filter(({ desiredStatus }) => desiredStatus === 'RUNNING');
  const until = <T>(look: () => T) => expect.poll(look, { timeout: 20_000, interval: 20 });
  return { ecs, client, events, signals, register, create, associate, describe, running, until };
}

const deploymentsOf = (events: readonly FakeEvent[]): string[] =>
  events.flatMap((event) => ('eventName' in event.detail ? [event.detail.eventName] : []));

test('a service runs behind its gateway, is rolled out without a gap, and leaves nothing', async () => {
  const { ecs, client, events, signals, register, create, associate, describe, running, until } = await setUp();
  const first = await register();
  await associate();
  await create();
  await until(() => deploymentsOf(events)).toEqual(['SERVICE_DEPLOYMENT_IN_PROGRESS', 'SERVICE_DEPLOYMENT_COMPLETED']);
  const { serviceArn } = await describe();
  expect(ecs.services.targetsOf(serviceArn!)).toMatchObject([{ address: expect.stringMatching(/^127\./) }]);
  expect(await describe()).toMatchObject({ runningCount: 1, tags: [{ key: 'platform:service', value: 'a' }] });
  const { gatewayRoutes = [] } = await client.send(new ListGatewayRoutesCommand({ cluster, service: 'a' }));
  expect(gatewayRoutes).toMatchObject([{ status: 'ACTIVE', serviceArn }]);
  expect(gatewayRoutes[0]).not.toHaveProperty('serviceUrl');
  const { gatewayRouteArn } = gatewayRoutes[0]!;
  const { gatewayRoute } = await client.send(new DescribeGatewayRouteCommand({ gatewayRouteArn }));
  expect(ecs.gateways.serviceAt(new URL(gatewayRoute!.serviceUrl!).host)).toBe(serviceArn);

  // The old task serves requests while a new one starts.
  const [old] = running();
  const second = await register('y');
  await client.send(new UpdateServiceCommand({ cluster, service: 'a', taskDefinition: second }));
  const served: number[] = [];
  await until(async () => {
    served.push(ecs.services.targetsOf(serviceArn!).length);
    return (await describe()).deployments?.map(({ rolloutState }) => rolloutState);
  }).toEqual(['COMPLETED']);
  expect(Math.min(...served)).toBeGreaterThan(0);
  await until(() => ecs.tasks.find(({ taskArn }) => taskArn === old!.taskArn)).toMatchObject({
    lastStatus: 'STOPPED',
    stopCode: 'ServiceSchedulerInitiated',
    containers: [{ exitCode: 0 }],
  });
  expect(signals).toEqual(['SIGTERM']);
  const listed = await client.send(new ListTasksCommand({ cluster, serviceName: 'a' }));
  const { tasks } = await client.send(new DescribeTasksCommand({ cluster, tasks: listed.taskArns, include: ['TAGS'] }));
  expect(tasks).toMatchObject([
    { taskDefinitionArn: second, group: 'service:a', tags: [{ value: 'a' }], startedAt: expect.any(Date) },
  ]);

  // ECS replaces a dead task.
  ecs.kill(tasks![0]!.taskArn!);
  await until(() => running().map(({ taskArn }) => taskArn === tasks![0]!.taskArn)).toEqual([false]);
  await client.send(new UpdateServiceCommand({ cluster, service: 'a', desiredCount: 0 }));
  await until(() => running().length).toBe(0);

  const remove = (names: string[]) => client.send(new DeleteTaskDefinitionsCommand({ taskDefinitions: names }));
  expect(await remove([first])).toMatchObject({ taskDefinitions: [], failures: [{ arn: first }] });
  await client.send(new DeregisterTaskDefinitionCommand({ taskDefinition: first }));
  expect(await remove([first])).toMatchObject({ taskDefinitions: [{ status: 'DELETE_IN_PROGRESS' }], failures: [] });

  const leave = new DisassociateGatewayFromClusterCommand({ gateway: 'main', cluster });
  await client.send(leave);
  await expect(client.send(new DeleteGatewayCommand({ gateway: 'main' }))).rejects.toThrow('associated');
  await client.send(new DeleteServiceCommand({ cluster, service: 'a', force: true }));
  await until(async () => (await describe()).status).toBe('INACTIVE');
  await until(() => ecs.gateways.routes).toEqual([]);
  const associations = () => client.send(new ListGatewayClusterAssociationsCommand({ gateway: 'main' }));
  await until(async () => (await associations()).gatewayClusterAssociations).toEqual([]);
  await client.send(new DeleteGatewayCommand({ gateway: 'main' }));
  expect((await client.send(new ListServicesCommand({ cluster }))).serviceArns).toEqual([]);
});

test('a name is free again once its service has drained', async () => {
  const ends = Promise.withResolvers<void>();
  const { client, register, create, associate, running, until } = await setUp({ status: 200, ends: ends.promise });
  await register();
  await associate();
  await create();
  await expect(create()).rejects.toThrow('not idempotent');
  await until(() => running()[0]?.lastStatus).toBe('RUNNING');
  await expect(client.send(new DeleteServiceCommand({ cluster, service: 'a' }))).rejects.toThrow('scaled above 0');
  await client.send(new DeleteServiceCommand({ cluster, service: 'a', force: true }));
  await expect(create()).rejects.toThrow('still Draining');
  await expect(client.send(new UpdateServiceCommand({ cluster, service: 'a' }))).rejects.toThrow('not ACTIVE');
  ends.resolve();
  await until(() => create().then(() => 'created', String)).toBe('created');
});

test.each([
  ['a task that cannot start', { status: 200, fails: true }],
  // Without a grace period the task is probed at once and never becomes healthy.
  ['a task that ends before it is healthy', { status: 503 }],
])('a rollout of %s is given up by the circuit breaker, and the old tasks stay', async (_, next) => {
  const behaviour: { status: number; fails?: boolean } = { status: 200 };
  const { ecs, client, events, register, create, associate, running, until } = await setUp(behaviour);
  await register();
  await associate();
  const deploymentCircuitBreaker = {
    ...{ enable: true, rollback: false },
    thresholdConfiguration: { type: 'COUNT', value: 3 } as const,
  };
  await create({ deploymentConfiguration: { deploymentCircuitBreaker } });
  await until(() => deploymentsOf(events)).toContain('SERVICE_DEPLOYMENT_COMPLETED');
  const [old] = running();
  Object.assign(behaviour, next);
  await client.send(new UpdateServiceCommand({ cluster, service: 'a', taskDefinition: await register('y') }));
  await until(() => {
    for (const task of running())
      if (task.taskArn !== old!.taskArn && task.lastStatus === 'RUNNING') ecs.kill(task.taskArn);
    return deploymentsOf(events);
  }).toContain('SERVICE_DEPLOYMENT_FAILED');
  expect(running().map(({ taskArn }) => taskArn)).toContain(old!.taskArn);
  const failed = ecs.tasks.filter(({ stopCode }) => stopCode !== undefined);
  expect(new Set(failed.map(({ stopCode }) => stopCode))).toEqual(
    new Set(['fails' in next ? 'TaskFailedToStart' : 'EssentialContainerExited']),
  );
});

test('with 0 and 100 percent no two revisions run at the same moment', async () => {
  const { ecs, client, events, register, create, associate, until } = await setUp();
  await register();
  await associate();
  await create({ deploymentConfiguration: { minimumHealthyPercent: 0, maximumPercent: 100 } });
  await until(() => deploymentsOf(events)).toContain('SERVICE_DEPLOYMENT_COMPLETED');
  const second = await register('y');
  await client.send(new UpdateServiceCommand({ cluster, service: 'a', taskDefinition: second }));
  await until(() => deploymentsOf(events).filter((name) => name.endsWith('COMPLETED')).length).toBe(2);
  const lines = events.flatMap(({ detail }) => ('taskArn' in detail ? [detail] : []));
  const ended = lines.findIndex(({ lastStatus }) => lastStatus === 'STOPPED');
  const begun = lines.findIndex(({ taskDefinitionArn }) => taskDefinitionArn === second);
  expect(ended).toBeGreaterThan(0);
  expect(begun).toBeGreaterThan(ended);
  expect(ecs.tasks).toHaveLength(2);
});

test('what AWS refuses is refused', async () => {
  const { client, register, create, associate } = await setUp();
  await register();
  await expect(create()).rejects.toThrow('no gateway that is ACTIVE');
  await associate();
  await expect(create({ gatewayConnectors: [{ portName: 'web' }] })).rejects.toThrow('no port mapping named web');
  const two = [{ portName: 'http' }, { portName: 'http' }];
  await expect(create({ gatewayConnectors: two })).rejects.toThrow('at most one');
  await expect(create({ taskDefinition: 'svc-b' })).rejects.toThrow('inactive');
  await expect(create({ networkConfiguration: undefined })).rejects.toThrow('subnets');
  await expect(create({ gatewayConnectors: [] })).rejects.toThrow('grace period');
  await expect(create({ tags: [{ key: 'aws:x', value: '' }] })).rejects.toThrow('reserved');
  await expect(create({ clientToken: 'x'.repeat(37) })).rejects.toThrow('36');
  await expect(create({ serviceName: undefined })).rejects.toThrow('serviceName is required');
  await expect(create({ desiredCount: '1' as never })).rejects.toThrow();
  await expect(create({ cluster: 'another' })).rejects.toThrow('Cluster not found');
  await expect(client.send(new TagResourceCommand({ resourceArn: 'x', tags: [] }))).rejects.toThrow('not found');
  const noSize = { family: 'x', networkMode: 'awsvpc', cpu: '256', memory: '4096' } as const;
  const containerDefinitions = [{ name: 'runner', image: 'x' }];
  const register2 = new RegisterTaskDefinitionCommand({
    ...noSize,
    containerDefinitions,
    requiresCompatibilities: ['FARGATE'],
  });
  await expect(client.send(register2)).rejects.toThrow('No Fargate configuration');
});

test('a Region without gateways says so', async () => {
  const ecs = await startFakeEcs({
    clusters: [cluster],
    taskDefinitions: [],
    hasGateways: false,
    start: () => Promise.reject(),
  });
  onTestFinished(() => ecs.close());
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  const client = new ECSClient({ region: 'eu-west-1', credentials, endpoint: ecs.url, maxAttempts: 1 });
  await expect(client.send(new CreateGatewayCommand(GATEWAY))).rejects.toMatchObject({
    name: 'UnsupportedFeatureException',
  });
});
