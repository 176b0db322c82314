import {
  type ApplicationAutoScalingClient,
  DeregisterScalableTargetCommand,
  paginateDescribeScalableTargets,
} from '@aws-sdk/client-application-auto-scaling';
import {
  type CloudWatchLogsClient,
  DeleteLogGroupCommand,
  paginateDescribeLogGroups,
} from '@aws-sdk/client-cloudwatch-logs';
import {
  DeleteServiceCommand,
  DeleteTaskDefinitionsCommand,
  DeregisterTaskDefinitionCommand,
  DescribeClustersCommand,
  DescribeGatewayCommand,
  type ECSClient,
  paginateListGatewayRoutes,
  paginateListServices,
  paginateListTaskDefinitionFamilies,
  paginateListTaskDefinitions,
  type TaskDefinitionStatus,
  UpdateGatewayCommand,
} from '@aws-sdk/client-ecs';
import {
  DeleteRuleCommand,
  DeleteTargetGroupCommand,
  type ElasticLoadBalancingV2Client,
  paginateDescribeRules,
  paginateDescribeTargetGroups,
} from '@aws-sdk/client-elastic-load-balancing-v2';
import { batchesOf } from '#core/base/batches.ts';
import type { Clock } from '#core/ports/clock.ts';
import { unless } from '../named-error.ts';

export interface RemovalClients {
  readonly ecs: ECSClient;
  readonly elb: ElasticLoadBalancingV2Client;
  readonly logs: CloudWatchLogsClient;
  readonly scaling: ApplicationAutoScalingClient;
  readonly clock: Clock;
}

/** Resources that the platform created for services at run time, and CloudFormation therefore would not delete. */
export interface ServiceLeftovers {
  readonly cluster: string;
  /** Prefix of the task definition families. */
  readonly familyPrefix: string;
  /** Prefix of the log groups. @default - logs are kept */
  readonly logGroupPrefix?: string | undefined;
  /** ARN of the services' gateway. */
  readonly gateway?: string | undefined;
  /** ARN of the services' listener, and the id of the network that contains only services. */
  readonly listener?: string | undefined;
  readonly vpc?: string | undefined;
  /**
   * Minimum time before everything counts as removed: until then a function that creates services may still be running.
   * Milliseconds.
   */
  readonly settleMs: number;
}

const POLL_MS = 5000;
/** Maximum batch size of DeleteTaskDefinitions. */
const DELETE_BATCH = 10;

/**
 * Deletes all services of a cluster with their resources, and waits until ECS has removed the resources that it created
 * itself: a cluster with services, a gateway with routes, and a network with the interfaces of instances cannot be
 * deleted.
 *
 * Safe to call again. Throws at `until`, or if a route cannot be deleted; the error lists what remains.
 */
export async function removeAllServices(
  clients: RemovalClients,
  leftovers: ServiceLeftovers,
  until: number,
): Promise<void> {
  const { clock } = clients;
  const settled = clock.now() + leftovers.settleMs;
  for (;;) {
    await deleteServices(clients, leftovers);
    const left = await whatIsLeft(clients, leftovers);
    if (left.things.length === 0 && clock.now() >= settled) break;
    if (left.things.length > 0 && left.isStuck) {
      throw new Error(`the gateway could not remove ${left.things.join(', ')}: see its failures in the ECS console`);
    }
    if (clock.now() >= until) throw outOfTime(left.things);
    await clock.sleep(POLL_MS);
  }
  const steps = [removeWaysOfBalancer, removeScaling, removeLogs, removeTaskDefinitions];
  for (const step of steps) {
    for await (const _ of step(clients, leftovers))
      if (clock.now() >= until) throw outOfTime(['their remaining resources']);
  }
}

const outOfTime = (things: readonly string[]): Error =>
  new Error(`services are still being removed (${things.join(', ')}): delete the stack again to continue`);

async function deleteServices({ ecs }: RemovalClients, { cluster }: ServiceLeftovers): Promise<void> {
  const arns: string[] = [];
  const pages = paginateListServices({ client: ecs }, { cluster });
  for await (const { serviceArns = [] } of pages) arns.push(...serviceArns);
  for (const service of arns) {
    await ecs
      .send(new DeleteServiceCommand({ cluster, service, force: true }))
      .catch(unless('ServiceNotFoundException', 'ServiceNotActiveException'));
  }
}

/** Deleted services are not listed, but are counted while ECS stops their instances. */
async function whatIsLeft(
  { ecs }: RemovalClients,
  { cluster, gateway }: ServiceLeftovers,
): Promise<{ readonly things: string[]; readonly isStuck: boolean }> {
  const described = await ecs.send(new DescribeClustersCommand({ clusters: [cluster], include: ['STATISTICS'] }));
  const [found] = described.clusters ?? [];
  const draining = (found?.statistics ?? [])
    .filter(({ name = '' }) => name.startsWith('draining'))
    .reduce((sum, { value }) => sum + Number(value), 0);
  const services = (found?.activeServicesCount ?? 0) + draining;
  const instances = (found?.runningTasksCount ?? 0) + (found?.pendingTasksCount ?? 0);
  const routes = gateway === undefined ? [] : await routesOf(ecs, gateway);
  const failed = routes.filter(({ status }) => status === 'DELETE_FAILED');
  const counts = { services, instances, routes: routes.length };
  const things = Object.entries(counts).flatMap(([name, count]) => (count === 0 ? [] : [`${name}: ${count}`]));
  const isStuck = failed.length > 0 && failed.length === routes.length && services + instances === 0;
  return { things: isStuck ? failed.map(({ gatewayRouteArn }) => String(gatewayRouteArn)) : things, isStuck };
}

async function routesOf(ecs: ECSClient, gateway: string) {
  const pages = await Array.fromAsync(paginateListGatewayRoutes({ client: ecs }, { gateway }));
  return pages.flatMap(({ gatewayRoutes = [] }) => gatewayRoutes);
}

/** Each step yields after every resource that it has removed. */
async function* removeWaysOfBalancer(
  { elb }: RemovalClients,
  { listener, vpc }: ServiceLeftovers,
): AsyncGenerator<void> {
  if (listener === undefined) return;
  const rules = await Array.fromAsync(paginateDescribeRules({ client: elb }, { ListenerArn: listener }));
  for (const { RuleArn, IsDefault } of rules.flatMap(({ Rules = [] }) => Rules)) {
    if (IsDefault) continue;
    await elb.send(new DeleteRuleCommand({ RuleArn })).catch(unless('RuleNotFoundException'));
    yield;
  }
  const groups = await Array.fromAsync(paginateDescribeTargetGroups({ client: elb }, {}));
  for (const { TargetGroupArn, VpcId } of groups.flatMap(({ TargetGroups = [] }) => TargetGroups)) {
    if (VpcId !== vpc) continue;
    await elb.send(new DeleteTargetGroupCommand({ TargetGroupArn }));
    yield;
  }
}

/** AWS deletes a target's alarms together with it. */
async function* removeScaling({ scaling }: RemovalClients, { cluster }: ServiceLeftovers): AsyncGenerator<void> {
  const pages = await Array.fromAsync(
    paginateDescribeScalableTargets({ client: scaling }, { ServiceNamespace: 'ecs' }),
  );
  for (const target of pages.flatMap(({ ScalableTargets = [] }) => ScalableTargets)) {
    const { ResourceId, ScalableDimension } = target;
    if (!ResourceId?.startsWith(`service/${cluster}/`)) continue;
    await scaling
      .send(new DeregisterScalableTargetCommand({ ServiceNamespace: 'ecs', ResourceId, ScalableDimension }))
      .catch(unless('ObjectNotFoundException'));
    yield;
  }
}

async function* removeLogs({ logs }: RemovalClients, { logGroupPrefix }: ServiceLeftovers): AsyncGenerator<void> {
  if (logGroupPrefix === undefined) return;
  const pages = await Array.fromAsync(
    paginateDescribeLogGroups({ client: logs }, { logGroupNamePrefix: logGroupPrefix }),
  );
  for (const { logGroupName } of pages.flatMap(({ logGroups = [] }) => logGroups)) {
    await logs.send(new DeleteLogGroupCommand({ logGroupName })).catch(unless('ResourceNotFoundException'));
    yield;
  }
}

/** ECS deletes only deregistered task definitions. */
async function* removeTaskDefinitions(
  { ecs }: RemovalClients,
  { familyPrefix }: ServiceLeftovers,
): AsyncGenerator<void> {
  const pages = paginateListTaskDefinitionFamilies({ client: ecs }, { familyPrefix, status: 'ALL' });
  const families = (await Array.fromAsync(pages)).flatMap(({ families: some = [] }) => some);
  for (const family of families) {
    for (const taskDefinition of await definitionsOf(ecs, family, 'ACTIVE')) {
      await ecs.send(new DeregisterTaskDefinitionCommand({ taskDefinition }));
      yield;
    }
    const inactive = await definitionsOf(ecs, family, 'INACTIVE');
    for (const taskDefinitions of batchesOf(inactive, DELETE_BATCH)) {
      await ecs.send(new DeleteTaskDefinitionsCommand({ taskDefinitions }));
      yield;
    }
  }
}

async function definitionsOf(ecs: ECSClient, familyPrefix: string, status: TaskDefinitionStatus): Promise<string[]> {
  const pages = await Array.fromAsync(paginateListTaskDefinitions({ client: ecs }, { familyPrefix, status }));
  return pages.flatMap(({ taskDefinitionArns = [] }) => taskDefinitionArns);
}

/**
 * Disables the deletion protection of a gateway and its load balancers, and waits for it. No-op if the gateway is gone.
 * Throws if ECS fails, or at `until`.
 */
export async function liftProtection(
  { ecs, clock }: Pick<RemovalClients, 'ecs' | 'clock'>,
  gateway: string,
  until: number,
): Promise<void> {
  const update = new UpdateGatewayCommand({ gateway, deletionProtection: false });
  const begun = await ecs.send(update).catch(unless('GatewayNotFoundException'));
  if (begun === undefined) return;
  for (;;) {
    const { status, statusReason } = (await ecs.send(new DescribeGatewayCommand({ gateway }))).gateway ?? {};
    if (status === 'UPDATE_FAILED') throw new Error(`the gateway stays protected: ${statusReason}`);
    if (status !== 'UPDATE_IN_PROGRESS') return;
    if (clock.now() >= until) throw new Error('the gateway is still being changed: delete the stack again to continue');
    await clock.sleep(POLL_MS);
  }
}
