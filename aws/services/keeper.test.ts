import { once } from 'node:events';
import { createServer } from 'node:http';
import { ApplicationAutoScalingClient } from '@aws-sdk/client-application-auto-scaling';
import { CloudWatchLogsClient } from '@aws-sdk/client-cloudwatch-logs';
import { AssociateGatewayWithClusterCommand, CreateGatewayCommand, ECSClient } from '@aws-sdk/client-ecs';
import { describe, expect, onTestFinished, test } from 'vitest';
import { takeReports } from '#core/services/reports.ts';
import { ServiceStore } from '#core/services/store.ts';
import { AWS_TEST_ACCOUNT, TEST_REGION } from '#test/helpers/aws-account.ts';
import { refusal, startAwsFront } from '#test/helpers/aws-front.ts';
import { type FakeEvent, startFakeEcs } from '#test/helpers/fake-ecs/fake-ecs.ts';
import type { FakeTask } from '#test/helpers/fake-ecs/tasks.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { serviceWorld } from '#test/helpers/services.ts';
import { EcsServiceHost } from './ecs-service-host.ts';
import { GatewayAddresses } from './gateway.ts';
import { type KeeperDeps, onKeeperEvent } from './keeper.ts';
import type { GatewaySettings } from './settings.ts';

const cluster = 'platform-dev-services';

/** The fake ECS uses this machine's time. */
class MachineClock extends ManualClock {
  override now(): number {
    return Date.now();
  }
}

/** Starts the program of a task, as visible to ECS. */
async function startContainer(address: string) {
  const { promise: exited, resolve } = Promise.withResolvers<number>();
  const server = createServer((_, response) => response.end('ok')).listen(8080, address);
  await once(server, 'listening');
  const end = (exitCode: number) => {
    server.close();
    server.closeAllConnections();
    resolve(exitCode);
  };
  return { exited, kill: (signal = 'SIGKILL') => end(signal === 'SIGKILL' ? 137 : 0) };
}

/** Creates the platform's records, the adapter, and a fake ECS whose events a test may deliver. */
async function keeperWorld() {
  const world = await serviceWorld({}, new MachineClock());
  const waiting: FakeEvent[] = [];
  const behaviour: { problem?: string } = {};
  const fake = await startFakeEcs({
    clusters: [cluster],
    taskDefinitions: [],
    async start(_, address) {
      if (behaviour.problem !== undefined) throw new Error(behaviour.problem);
      return startContainer(address);
    },
    onEvent: (event) => waiting.push(event),
  });
  const other = await startAwsFront('http://127.0.0.1:9');
  onTestFinished(async () => {
    await fake.close();
    other.close();
  });
  for (const action of ['CreateLogGroup', 'PutRetentionPolicy', 'DeleteLogGroup']) {
    other.actions[action] = () => ({ body: {} });
  }
  other.actions.DeregisterScalableTarget = () => refusal('ObjectNotFoundException', 'No scalable target found');
  const account = { ...AWS_TEST_ACCOUNT, region: TEST_REGION };
  const ecs = new ECSClient({ ...account, endpoint: fake.url });
  const { gatewayArn: gateway } = await ecs.send(
    new CreateGatewayCommand({
      name: 'platform-dev',
      infrastructureRoleArn: 'arn:aws:iam::111122223333:role/infrastructure',
      configuration: { hostSharedAlb: {} },
    }),
  );
  await ecs.send(new AssociateGatewayWithClusterCommand({ gateway, cluster }));
  const settings: GatewaySettings = {
    ...{ kind: 'ecs-gateway', gateway: gateway!, cluster, stage: 'dev' },
    ...{
      subnets: ['subnet-1', 'subnet-2'],
      public_ip: true,
      security_group: 'sg-1',
      image: 'runner:1',
      cpu: 256,
      memory_mb: 512,
    },
    ...{ family_prefix: 'platform-dev-svc-', log_group_prefix: '/platform/dev/services/', log_retention_days: 30 },
    execution_role: 'arn:aws:iam::111122223333:role/execution',
    api_url: 'https://api.example.com',
  };
  const { clock, log } = world.deps;
  const serviceHost = new EcsServiceHost({
    ...{ settings, ecs, clock, log },
    scaling: new ApplicationAutoScalingClient({ ...account, endpoint: other.url }),
    logs: new CloudWatchLogsClient({ ...account, endpoint: other.url }),
    addresses: new GatewayAddresses(ecs, settings),
  });
  Object.assign(world.deps, { serviceHost, serviceLogs: serviceHost });
  const deps = world.deps as typeof world.deps & KeeperDeps;

  const taskOf = (id: string): FakeTask | undefined =>
    fake.tasks.findLast(({ group, lastStatus }) => group === `service:${id}` && lastStatus === 'RUNNING');
  const until = <T>(look: () => T) => expect.poll(look, { timeout: 20_000, interval: 50 });
  return {
    ...{ world, deps, fake, behaviour, taskOf, until },
    info: async (id: string) => (await world.service('GET', id)).service,
    /** Delivers the pending EventBridge events, each `times` times. */
    async deliver(times = 1): Promise<void> {
      await fake.settled();
      for (const event of waiting.splice(0)) {
        for (let count = 0; count < times; count++) await onKeeperEvent(deps, JSON.parse(JSON.stringify(event)));
      }
    },
    lose: async () => {
      await fake.settled();
      waiting.splice(0);
    },
    /** Returns the recorded running time of a task. */
    async spanOf(id: string, { taskArn }: FakeTask) {
      const service = await new ServiceStore(deps, world.owner.workspaceId).find(id);
      const { startedAt, seenAt, isMetered } = service!.instances[taskArn.split('/').at(-1)!]!;
      return { startedAt, seenAt, isMetered };
    },
    tick: () => onKeeperEvent(deps, { 'detail-type': 'Scheduled Event' }),
    /** Deploys a service and waits for its task. */
    async started(body: object = {}): Promise<string> {
      const { id: agent_id } = await world.publish();
      const { service } = await world.deploy({ agent_id, ...body });
      await until(() => taskOf(service.id)).toBeDefined();
      return service.id as string;
    },
    /** Makes the runner of a service's task report that it is ready. */
    async ready(id: string): Promise<void> {
      const [hosted] = await Array.fromAsync(serviceHost.list());
      const { instanceId, revision, startedAt } = hosted!.instances.at(-1)!;
      const one = { type: 'instance', serviceId: id, instanceId, revision, sequence: 1, at: Date.now() } as const;
      const rest = {
        phase: 'ready',
        isWorker: false,
        restarts: 0,
        failures: 0,
        steadyAt: null,
        lastEnd: null,
      } as const;
      await takeReports(deps, [{ ...one, ...rest, startedAt: startedAt! }]);
    },
  };
}

const spanOf = ({ startedAt, stoppedAt }: FakeTask) => ({
  startedAt: startedAt!.getTime(),
  seenAt: stoppedAt!.getTime(),
});

describe('a task that dies', () => {
  test.each([
    ['is counted once, however often the event comes', async ({ deliver }: World) => deliver(2)],
    [
      'is counted by the comparison if the event is lost',
      async ({ lose, tick }: World) => {
        await lose();
        await tick();
      },
    ],
    [
      'is counted once by both',
      async ({ deliver, tick }: World) => {
        await tick();
        await deliver();
        await tick();
      },
    ],
  ])('%s', async (_, hear) => {
    const world = await keeperWorld();
    const id = await world.started();
    await world.ready(id);
    const task = world.taskOf(id)!;
    world.fake.kill(task.taskArn);
    await world.until(() => world.fake.tasks[0]!.lastStatus).toBe('STOPPED');
    await hear(world);
    expect(await world.info(id)).toMatchObject({
      consecutive_restart_failures: 1,
      restart_count: 1,
      last_error: expect.stringContaining('Exit code 137'),
    });
    expect(await world.spanOf(id, task)).toEqual({ ...spanOf(world.fake.tasks[0]!), isMetered: true });
  });
});

type World = Awaited<ReturnType<typeof keeperWorld>>;

test('a service lives: made, reached, changed, paused, resumed and gone, without a failure', async () => {
  const world = await keeperWorld();
  const id = await world.started();
  expect(await world.info(id)).toMatchObject({ state: 'provisioning' });
  await world.tick();
  expect((await world.info(id)).service_url).toMatch(/^https:\/\/[^/]+$/);
  await world.ready(id);
  expect(await world.info(id)).toMatchObject({ state: 'running', health: 'healthy' });

  const [first] = world.fake.tasks;
  await world.world.service('PATCH', id, { env: { GREETING: 'hello' } });
  await world.until(() => world.fake.tasks[0]!.lastStatus).toBe('STOPPED');
  await world.deliver();
  expect(world.taskOf(id)?.taskArn).not.toBe(first!.taskArn);

  await world.world.service('PATCH', id, { desired_state: 'stopped' });
  await world.until(() => world.taskOf(id)).toBeUndefined();
  await world.deliver();
  await world.tick();
  expect(await world.info(id)).toMatchObject({ state: 'paused' });
  await world.world.service('PATCH', id, { desired_state: 'running' });
  await world.until(() => world.taskOf(id)).toBeDefined();
  await world.deliver();
  expect(await world.info(id)).toMatchObject({ consecutive_restart_failures: 0, last_error: null });

  const last = world.taskOf(id)!;
  await world.ready(id);
  await world.world.service('DELETE', id);
  expect((await world.info(id)).state).toBe('deleted');
  await world.until(() => world.fake.services.names).toEqual([]);
  // The last task ends after its service is deleted, and is billed to its end.
  await world.deliver();
  const ended = world.fake.tasks.find(({ taskArn }) => taskArn === last.taskArn)!;
  expect(await world.spanOf(id, last)).toEqual({ ...spanOf(ended), isMetered: true });
  await world.tick();
  expect(world.deps.lines.filter(({ level }) => level === 'error')).toEqual([]);
});

test('a task that cannot start fails the deployment, and the reason names the remedy', async () => {
  const world = await keeperWorld();
  world.behaviour.problem = 'CannotPullContainerError: runner:1: not found';
  const { id: agent_id } = await world.world.publish();
  const { service } = await world.world.deploy({ agent_id });
  await world.until(() => world.fake.tasks.filter(({ lastStatus }) => lastStatus === 'STOPPED').length).toBe(3);
  await world.deliver();
  expect(await world.info(service.id)).toMatchObject({
    state: 'failed',
    last_error: expect.stringMatching(
      /^AWS started no instance that stayed\. CannotPullContainerError.*must deploy the stage/,
    ),
  });
  // The image is available again.
  delete world.behaviour.problem;
  await world.world.service('POST', `${service.id}/restart`);
  await world.until(() => world.taskOf(service.id)).toBeDefined();
  expect((await world.info(service.id)).state).toBe('provisioning');
});

test('a service of which ECS has lost something is repaired, and what nobody knows is removed', async () => {
  const world = await keeperWorld();
  const id = await world.started();
  const { serviceHost } = world.deps;
  await serviceHost.pause({ id, workspaceId: 'w', label: 'bot' });
  await world.until(() => world.taskOf(id)).toBeUndefined();
  // The change in ECS must be newer than the order.
  await world.tick();
  await world.until(() => world.taskOf(id)).toBeDefined();
  await world.deps.main.delete({ pk: `SERVICE#${id}`, sk: 'META' });
  await world.tick();
  await world.until(() => world.fake.services.names).toEqual([]);
});
