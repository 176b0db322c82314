import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ApplicationAutoScalingClient } from '@aws-sdk/client-application-auto-scaling';
import { CloudWatchLogsClient } from '@aws-sdk/client-cloudwatch-logs';
import { AssociateGatewayWithClusterCommand, CreateGatewayCommand, ECSClient } from '@aws-sdk/client-ecs';
import { expect, onTestFinished, test } from 'vitest';
import { hashKey } from '#core/accounts/keys/key-format.ts';
import { applyService } from '#core/services/apply.ts';
import type { Service } from '#core/services/service.ts';
import { changed, deleted, paused } from '#core/services/state.ts';
import { ServiceStore } from '#core/services/store.ts';
import { keepServices } from '#core/services/sweep.ts';
import { AWS_TEST_ACCOUNT } from '#test/helpers/aws-account.ts';
import { startFakeEcs } from '#test/helpers/fake-ecs/fake-ecs.ts';
import { gatewayArnOf } from '#test/helpers/fake-ecs/gateways.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { newServiceRecord } from '#test/helpers/services.ts';
import { EcsServiceHost } from './ecs-service-host.ts';
import { GatewayAddresses } from './gateway.ts';
import type { GatewaySettings } from './settings.ts';

const MINUTE = 60_000;
const settings: GatewaySettings = {
  kind: 'ecs-gateway',
  cluster: 'services',
  subnets: ['subnet-1'],
  public_ip: true,
  security_group: 'sg-1',
  image: 'runner:1',
  execution_role: 'arn:aws:iam::111122223333:role/execution',
  family_prefix: 'platform-dev-svc-',
  log_group_prefix: '/platform/dev/services/',
  log_retention_days: 30,
  stage: 'dev',
  cpu: 256,
  memory_mb: 1024,
  api_url: 'https://api.example.com',
  gateway: gatewayArnOf('main'),
};

/** Number of calls that a process still makes. The last one is carried out, but its response is lost. */
interface Life {
  left: number;
}

const mortal =
  (life: Life) =>
  async <T>(call: () => Promise<T>): Promise<T> => {
    if (life.left <= 0) throw new Error('the process is dead');
    life.left -= 1;
    const answer = await call();
    if (life.left <= 0) throw new Error('the process is dead');
    return answer;
  };

/** Wraps an object so that its method calls count against the process's life. */
const withLife = <T extends object>(life: Life, of: T): T =>
  new Proxy(of, {
    get(target, name) {
      const member = Reflect.get(target, name);
      if (typeof member !== 'function') return member;
      return (...args: unknown[]) => mortal(life)(async () => member.apply(target, args));
    },
  });

/** Creates a service in the tables, a fake ECS, and interchangeable keeper processes. */
async function setUp() {
  const plain = memoryDeps();
  const others = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'application/x-amz-json-1.1' }).end('{}');
  }).listen(0, '127.0.0.1');
  await once(others, 'listening');
  const ecs = await startFakeEcs({
    clusters: [settings.cluster],
    taskDefinitions: [],
    async start() {
      const { promise: exited, resolve } = Promise.withResolvers<void>();
      return { exited, kill: () => resolve() };
    },
  });
  onTestFinished(async () => {
    others.close();
    await ecs.close();
  });
  const account = { ...AWS_TEST_ACCOUNT, maxAttempts: 1 };
  const operator = new ECSClient({ ...account, endpoint: ecs.url });
  await operator.send(
    new CreateGatewayCommand({
      name: 'main',
      infrastructureRoleArn: 'arn:aws:iam::111122223333:role/infrastructure',
      configuration: { hostSharedAlb: {} },
    }),
  );
  await operator.send(new AssociateGatewayWithClusterCommand({ gateway: 'main', cluster: settings.cluster }));

  /** A process that dies after this many calls to AWS and the tables. */
  function process(calls = Number.POSITIVE_INFINITY) {
    const life: Life = { left: calls };
    const clientOf = <T extends { middlewareStack: unknown }>(client: T): T => {
      const stack = client.middlewareStack as ECSClient['middlewareStack'];
      stack.add((next) => (args) => mortal(life)(() => next(args)), { step: 'initialize' });
      return client;
    };
    const endpoint = `http://127.0.0.1:${(others.address() as AddressInfo).port}`;
    const ecsClient = clientOf(new ECSClient({ ...account, endpoint: ecs.url }));
    const serviceHost = new EcsServiceHost({
      settings,
      ecs: ecsClient,
      scaling: clientOf(new ApplicationAutoScalingClient({ ...account, endpoint })),
      logs: clientOf(new CloudWatchLogsClient({ ...account, endpoint })),
      addresses: new GatewayAddresses(ecsClient, settings),
      clock: plain.clock,
      log: plain.log,
    });
    const deps = { ...plain, main: withLife(life, plain.main), serviceHost };
    return { deps, life };
  }
  const record = newServiceRecord({ createdAt: plain.clock.now() });
  const store = new ServiceStore(plain, record.workspaceId);
  await store.create(record, 10, { type: 'deployed', message: 'Deployed.' });
  const serviceOf = async () => (await store.find(record.id))!;
  const definitions = () => ecs.definitions.all.filter(({ status }) => status === 'ACTIVE');
  return { ...plain, ecs, process, store, id: record.id, serviceOf, definitions };
}

/** Changes that an owner makes before the process under test starts its work. */
const commands: [what: string, change: ((service: Service) => Service) | undefined][] = [
  ['a deploy', undefined],
  ['a change', changed],
  ['a pause', paused],
  ['a removal', deleted],
];

test.each(commands)(
  '%s goes through, after whichever call the keeper is killed',
  { timeout: 120_000 },
  async (_, change) => {
    let isKilled = true;
    let deaths = 0;
    for (let calls = 1; isKilled; calls++) {
      const { clock, ecs, process, store, id, serviceOf, definitions } = await setUp();
      if (change !== undefined) {
        await applyService(process().deps, id);
        await store.change(id, (service) => ({ service: change(service) }));
      }
      const first = process(calls);
      await applyService(first.deps, id).catch(() => {});
      isKilled = first.life.left <= 0;
      deaths += Number(isKilled);
      // The dead process's lease expires, and the clock starts another process; repeated.
      for (let minutes = 0; minutes < 3; minutes++) {
        clock.advance(MINUTE + 1000);
        await keepServices(process().deps);
      }
      const after = await serviceOf();
      const context = `killed after call ${calls}`;
      expect([after.applied?.revision, after.applying], context).toEqual([after.revision, null]);
      const isThere = after.desired !== 'deleted';
      expect(ecs.services.names, context).toEqual(isThere ? [id] : []);
      const expected = isThere ? [definitions().at(-1)?.taskDefinitionArn] : [];
      expect(
        definitions().map(({ taskDefinitionArn }) => taskDefinitionArn),
        context,
      ).toEqual(expected);
      const wanted = ecs.tasks.filter(({ desiredStatus }) => desiredStatus === 'RUNNING');
      if (after.desired !== 'running') expect(wanted, context).toEqual([]);
      else {
        // Instances that start from now on get their document.
        const { environment = [] } = definitions()[0]!.containerDefinitions[0]!;
        const token = environment.find(({ name }) => name === 'PLATFORM_RUNNER_SERVICE_TOKEN')!.value;
        const good = after.tokens.filter(({ hash }) => hash === hashKey(token));
        expect(good, context).toMatchObject([{ revision: after.revision }]);
      }
    }
    // Each order takes several calls to AWS, and some to the tables.
    expect(deaths).toBeGreaterThan(5);
  },
);
