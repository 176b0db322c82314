import { ApplicationAutoScalingClient } from '@aws-sdk/client-application-auto-scaling';
import { CloudWatchLogsClient } from '@aws-sdk/client-cloudwatch-logs';
import { ECSClient } from '@aws-sdk/client-ecs';
import { ElasticLoadBalancingV2Client } from '@aws-sdk/client-elastic-load-balancing-v2';
import { describe, expect, test } from 'vitest';
import { cleanerOf } from './cleaner.ts';
import { liftProtection, removeAllServices, type ServiceLeftovers } from './remove-all.ts';

const CLUSTER = 'platform-test-services';
const FAMILIES = 'platform-test-svc-';
const LOGS = '/platform/test/services/';
const GATEWAY = 'arn:aws:ecs:eu-west-1:111122223333:gateway/platform-test-services-eu-west-1/0123';
const LISTENER = 'arn:aws:elasticloadbalancing:eu-west-1:111122223333:listener/app/platform-test-services/1/2';
const GATEWAY_KIND: ServiceLeftovers = {
  cluster: CLUSTER,
  familyPrefix: FAMILIES,
  logGroupPrefix: LOGS,
  gateway: GATEWAY,
  settleMs: 0,
};
const BALANCER_KIND = { ...GATEWAY_KIND, gateway: undefined, listener: LISTENER, vpc: 'vpc-ours' };
const FOREVER = Number.POSITIVE_INFINITY;

const refused = (name: string) => Object.assign(new Error(name), { name });

/** Simulates AWS's resources for services: deleted services drain, and their routes disappear with them. */
class Aws {
  readonly services = new Set<string>();
  /** Service -> number of polls until it is gone. */
  readonly draining = new Map<string, number>();
  /** Service -> status. */
  readonly routes = new Map<string, string>();
  readonly definitions = new Map<string, 'ACTIVE' | 'INACTIVE' | 'DELETED'>();
  readonly logGroups = new Set<string>();
  readonly targets = new Set<string>();
  readonly rules = new Set<string>(['default']);
  /** Target group -> network. */
  readonly groups = new Map<string, string>();
  readonly calls: string[] = [];
  gateway: { status: string; deletionProtection: boolean; statusReason?: string } | undefined;
  now = 0;
  /** Called at each poll. */
  onLook = (): void => {};
  looksToDrain = 2;

  add(...names: string[]): this {
    for (const name of names) {
      this.services.add(name);
      this.routes.set(name, 'ACTIVE');
      this.logGroups.add(LOGS + name);
      this.targets.add(`service/${CLUSTER}/${name}`);
      this.groups.set(`group-${name}`, 'vpc-ours');
      this.rules.add(`rule-${name}`);
      for (const revision of [1, 2]) this.definitions.set(`${FAMILIES}${name}:${revision}`, 'ACTIVE');
    }
    return this;
  }

  get clients() {
    const clientOf = <T extends object>(client: T): T =>
      Object.assign(client, {
        send: async (command: { readonly input: object }) => {
          const name = command.constructor.name.replace(/Command$/, '');
          this.calls.push(name);
          const answer = (this as unknown as Record<string, ((input: object) => unknown) | undefined>)[name];
          if (answer === undefined) throw new Error(`AWS knows no ${name}`);
          return answer.call(this, command.input);
        },
      });
    const options = { region: 'eu-west-1', credentials: { accessKeyId: 'made-up', secretAccessKey: 'made-up' } };
    return {
      ecs: clientOf(new ECSClient(options)),
      elb: clientOf(new ElasticLoadBalancingV2Client(options)),
      logs: clientOf(new CloudWatchLogsClient(options)),
      scaling: clientOf(new ApplicationAutoScalingClient(options)),
      clock: {
        now: () => this.now,
        sleep: async (ms: number) => {
          this.now += ms;
        },
        after: () => () => {},
      },
    };
  }

  ListServices = () => ({ serviceArns: [...this.services] });
  DeleteService = ({ service, force }: { service: string; force: boolean }) => {
    if (!force) throw refused('InvalidParameterException');
    if (!this.services.delete(service)) throw refused('ServiceNotFoundException');
    this.draining.set(service, this.looksToDrain);
  };
  DescribeClusters = ({ clusters, include }: { clusters: string[]; include: string[] }) => {
    expect([clusters, include]).toEqual([[CLUSTER], ['STATISTICS']]);
    this.onLook();
    for (const [name, looks] of this.draining) {
      if (looks > 0) this.draining.set(name, looks - 1);
      else {
        this.draining.delete(name);
        if (this.routes.get(name) === 'ACTIVE') this.routes.delete(name);
      }
    }
    const statistics = [{ name: 'drainingFargateServiceCount', value: String(this.draining.size) }];
    const runningTasksCount = [...this.draining.values()].filter((looks) => looks > 1).length;
    return { clusters: [{ activeServicesCount: this.services.size, runningTasksCount, statistics }] };
  };
  ListGatewayRoutes = ({ gateway }: { gateway: string }) => {
    expect(gateway).toBe(GATEWAY);
    return { gatewayRoutes: [...this.routes].map(([name, status]) => ({ gatewayRouteArn: `route/${name}`, status })) };
  };
  ListTaskDefinitionFamilies = ({ familyPrefix }: { familyPrefix: string }) => {
    const left = [...this.definitions].filter(([, status]) => status !== 'DELETED');
    const families = new Set(left.map(([arn]) => arn.split(':')[0]!));
    return { families: [...families].filter((family) => family.startsWith(familyPrefix)) };
  };
  ListTaskDefinitions = ({ familyPrefix, status }: { familyPrefix: string; status: string }) => ({
    taskDefinitionArns: [...this.definitions].flatMap(([arn, now]) =>
      // The prefix equals a full family name.
      arn.split(':')[0] === familyPrefix && now === status ? [arn] : [],
    ),
  });
  DeregisterTaskDefinition = ({ taskDefinition }: { taskDefinition: string }) =>
    void this.definitions.set(taskDefinition, 'INACTIVE');
  DeleteTaskDefinitions = ({ taskDefinitions }: { taskDefinitions: string[] }) => {
    if (taskDefinitions.length > 10) throw refused('InvalidParameterException');
    for (const arn of taskDefinitions) {
      if (this.definitions.get(arn) !== 'INACTIVE') throw refused('ClientException');
      this.definitions.set(arn, 'DELETED');
    }
  };
  DescribeLogGroups = ({ logGroupNamePrefix }: { logGroupNamePrefix: string }) => ({
    logGroups: [...this.logGroups]
      .filter((name) => name.startsWith(logGroupNamePrefix))
      .map((logGroupName) => ({ logGroupName })),
  });
  DeleteLogGroup = ({ logGroupName }: { logGroupName: string }) => void this.logGroups.delete(logGroupName);
  DescribeScalableTargets = () => ({
    ScalableTargets: [...this.targets].map((ResourceId) => ({
      ResourceId,
      ScalableDimension: 'ecs:service:DesiredCount',
    })),
  });
  DeregisterScalableTarget = ({ ResourceId }: { ResourceId: string }) => void this.targets.delete(ResourceId);
  DescribeRules = () => ({ Rules: [...this.rules].map((RuleArn) => ({ RuleArn, IsDefault: RuleArn === 'default' })) });
  DeleteRule = ({ RuleArn }: { RuleArn: string }) => void this.rules.delete(RuleArn);
  DescribeTargetGroups = () => ({
    TargetGroups: [...this.groups].map(([TargetGroupArn, VpcId]) => ({ TargetGroupArn, VpcId })),
  });
  DeleteTargetGroup = ({ TargetGroupArn }: { TargetGroupArn: string }) => {
    if (this.rules.has(TargetGroupArn.replace('group', 'rule'))) throw refused('ResourceInUseException');
    this.groups.delete(TargetGroupArn);
  };
  UpdateGateway = ({ deletionProtection }: { deletionProtection: boolean }) => {
    if (this.gateway === undefined) throw refused('GatewayNotFoundException');
    this.gateway = { ...this.gateway, status: 'UPDATE_IN_PROGRESS', deletionProtection };
    return { status: this.gateway.status };
  };
  DescribeGateway = () => {
    this.onLook();
    return { gateway: this.gateway };
  };
}

const leftOf = ({ services, draining, definitions, logGroups, targets }: Aws) => ({
  services: services.size + draining.size,
  definitions: [...definitions.values()].filter((status) => status !== 'DELETED').length,
  logGroups: [...logGroups],
  targets: [...targets],
});
const NOTHING = { services: 0, definitions: 0, logGroups: [], targets: [] };

describe('removing all services of a stage', () => {
  test('takes them with everything that was made for them, and nothing else', async () => {
    const aws = new Aws().add('a', 'b', 'c');
    for (let revision = 1; revision <= 23; revision++) aws.definitions.set(`${FAMILIES}a:${revision}`, 'INACTIVE');
    aws.logGroups.add('/platform/test/sandbox');
    aws.targets.add('service/other/a');
    aws.definitions.set('platform-other-svc-a:1', 'ACTIVE');
    await removeAllServices(aws.clients, GATEWAY_KIND, FOREVER);
    expect(leftOf(aws)).toEqual({
      services: 0,
      definitions: 1,
      logGroups: ['/platform/test/sandbox'],
      targets: ['service/other/a'],
    });
    expect([...aws.routes]).toEqual([]);
    expect(aws.calls).not.toContain('DescribeRules');
  });

  test('leaves the logs where the stage keeps its data', async () => {
    const aws = new Aws().add('a');
    await removeAllServices(aws.clients, { ...GATEWAY_KIND, logGroupPrefix: undefined }, FOREVER);
    expect(leftOf(aws)).toEqual({ ...NOTHING, logGroups: [`${LOGS}a`] });
  });

  test('takes rules before the target groups that they lead to, of this network alone', async () => {
    const aws = new Aws().add('a', 'b');
    aws.groups.set('group-of-another', 'vpc-other');
    await removeAllServices(aws.clients, BALANCER_KIND, FOREVER);
    expect([[...aws.rules], [...aws.groups.keys()]]).toEqual([['default'], ['group-of-another']]);
    expect(leftOf(aws)).toEqual(NOTHING);
    expect(aws.calls).not.toContain('ListGatewayRoutes');
  });

  test('ends only when ECS has taken everything apart', async () => {
    const aws = new Aws().add('a');
    aws.routes.set('a', 'DELETE_IN_PROGRESS');
    let looks = 0;
    aws.onLook = () => {
      if (++looks === 9) aws.routes.clear();
    };
    await removeAllServices(aws.clients, GATEWAY_KIND, FOREVER);
    expect(looks).toBe(9);
  });

  test('a service that is made meanwhile goes, too', async () => {
    const aws = new Aws();
    let looks = 0;
    aws.onLook = () => {
      if (++looks === 3) aws.add('late');
    };
    await removeAllServices(aws.clients, { ...GATEWAY_KIND, settleMs: 60_000 }, FOREVER);
    expect(leftOf(aws)).toEqual(NOTHING);
    expect(aws.now).toBeGreaterThanOrEqual(60_000);
  });

  test('a cluster that is gone already has none', async () => {
    const aws = new Aws();
    aws.DescribeClusters = () => ({ clusters: [], failures: [{ reason: 'MISSING' }] }) as never;
    await removeAllServices(aws.clients, GATEWAY_KIND, FOREVER);
    expect(leftOf(aws)).toEqual(NOTHING);
  });

  test('ends when its time is up, says what is left, and continues when called again', async () => {
    const aws = new Aws().add('a', 'b');
    aws.looksToDrain = 100;
    await expect(removeAllServices(aws.clients, GATEWAY_KIND, 60_000)).rejects.toThrow(
      'services are still being removed (services: 2, instances: 2, routes: 2): delete the stack again to continue',
    );
    expect(aws.now).toBe(60_000);
    await removeAllServices(aws.clients, GATEWAY_KIND, FOREVER);
    expect(leftOf(aws)).toEqual(NOTHING);
  });

  test('ends in time also among the many things that belonged to services', async () => {
    const aws = new Aws();
    for (let i = 0; i < 50; i++) aws.definitions.set(`${FAMILIES}${i}:1`, 'ACTIVE');
    const clients = aws.clients;
    const send = clients.ecs.send.bind(clients.ecs);
    Object.assign(clients.ecs, {
      send(command: never) {
        aws.now += 1000;
        return send(command);
      },
    });
    await expect(removeAllServices(clients, GATEWAY_KIND, 30_000)).rejects.toThrow('delete the stack again');
    expect(aws.now).toBeLessThanOrEqual(32_000);
    await removeAllServices(clients, GATEWAY_KIND, FOREVER);
    expect(leftOf(aws)).toEqual(NOTHING);
  });

  test('a route that ECS could not remove is named at once, after everything else has gone', async () => {
    const aws = new Aws().add('a', 'b');
    aws.routes.set('a', 'DELETE_FAILED');
    await expect(removeAllServices(aws.clients, GATEWAY_KIND, FOREVER)).rejects.toThrow(
      'the gateway could not remove route/a: see its failures in the ECS console',
    );
    expect(leftOf(aws).services).toBe(0);
  });

  test('twice does no harm', async () => {
    const aws = new Aws().add('a');
    await removeAllServices(aws.clients, GATEWAY_KIND, FOREVER);
    await removeAllServices(aws.clients, GATEWAY_KIND, FOREVER);
    expect(leftOf(aws)).toEqual(NOTHING);
  });
});

describe('the protection of a gateway', () => {
  test('is lifted, and the gateway waited for', async () => {
    const aws = new Aws();
    aws.gateway = { status: 'ACTIVE', deletionProtection: true };
    let looks = 0;
    aws.onLook = () => {
      if (++looks === 3) aws.gateway = { ...aws.gateway!, status: 'UPDATE_COMPLETE' };
    };
    await liftProtection(aws.clients, GATEWAY, FOREVER);
    expect([aws.gateway.deletionProtection, looks]).toEqual([false, 3]);
  });

  test('of one that is gone is none', async () => {
    await liftProtection(new Aws().clients, GATEWAY, FOREVER);
  });

  test('that ECS does not lift is an error with its reason', async () => {
    const aws = new Aws();
    aws.gateway = { status: 'ACTIVE', deletionProtection: true };
    aws.onLook = () => {
      aws.gateway = { ...aws.gateway!, status: 'UPDATE_FAILED', statusReason: 'no rights' };
    };
    await expect(liftProtection(aws.clients, GATEWAY, FOREVER)).rejects.toThrow('stays protected: no rights');
    aws.onLook = () => {};
    await expect(liftProtection(aws.clients, GATEWAY, aws.now + 60_000)).rejects.toThrow('delete the stack again');
  });
});

describe('as CloudFormation calls it', () => {
  const OF_GATEWAY = { Cluster: CLUSTER, FamilyPrefix: FAMILIES, LogGroupPrefix: LOGS, SettleSeconds: '60' };

  test('it removes what the properties name', async () => {
    const aws = new Aws().add('a');
    await cleanerOf(aws.clients).onDelete({
      ResourceType: 'Custom::RemoveServices',
      ResourceProperties: { ...OF_GATEWAY, Gateway: GATEWAY, ServiceToken: 'arn', ServiceTimeout: '900' },
    });
    expect(leftOf(aws)).toEqual(NOTHING);
    aws.gateway = { status: 'ACTIVE', deletionProtection: true };
    aws.onLook = () => {
      aws.gateway = { ...aws.gateway!, status: 'UPDATE_COMPLETE' };
    };
    const ResourceProperties = { Gateway: GATEWAY };
    await cleanerOf(aws.clients).onDelete({ ResourceType: 'Custom::LiftProtection', ResourceProperties });
    expect(aws.gateway.deletionProtection).toBe(false);
  });

  test('it ends before Lambda would end it', async () => {
    const aws = new Aws().add('a');
    aws.looksToDrain = 10_000;
    const ResourceProperties = { ...OF_GATEWAY, Gateway: GATEWAY };
    const removed = cleanerOf(aws.clients).onDelete({ ResourceType: 'Custom::RemoveServices', ResourceProperties });
    await expect(removed).rejects.toThrow('services: 1');
    expect(aws.now).toBeLessThan(15 * 60_000);
  });

  test('it refuses another way to the services while there may be some, and nothing else', async () => {
    const { onUpdate } = cleanerOf(new Aws().clients);
    const before = { ...OF_GATEWAY, Gateway: GATEWAY };
    const update = (ResourceProperties: object) =>
      onUpdate({ ResourceType: 'Custom::RemoveServices', ResourceProperties, OldResourceProperties: before });
    await update({ ...before, SettleSeconds: '30', LogGroupPrefix: undefined });
    for (const after of [{ Listener: LISTENER, Vpc: 'vpc-ours' }, { Gateway: `${GATEWAY}4` }]) {
      await expect(update({ ...OF_GATEWAY, ...after })).rejects.toThrow('delete the stack of the services first');
    }
  });
});
