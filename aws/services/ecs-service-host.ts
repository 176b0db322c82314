import { hash } from 'node:crypto';
import type { ApplicationAutoScalingClient } from '@aws-sdk/client-application-auto-scaling';
import type { CloudWatchLogsClient } from '@aws-sdk/client-cloudwatch-logs';
import {
  CreateServiceCommand,
  DeleteServiceCommand,
  type DeploymentConfiguration,
  DescribeServicesCommand,
  DescribeTasksCommand,
  type ECSClient,
  type NetworkConfiguration,
  paginateListServices,
  paginateListTasks,
  type Service,
  TagResourceCommand,
  type Task,
  UpdateServiceCommand,
} from '@aws-sdk/client-ecs';
import { batchesOf } from '#core/base/batches.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Log } from '#core/ports/deps.ts';
import {
  type HostedService,
  type InstanceEnd,
  ServiceHostError,
  type ServiceLogLine,
  type ServiceLogQuery,
  type ServiceOrder,
  type ServiceRef,
  type ServiceReport,
} from '#core/ports/service-host.ts';
import { unless } from '../named-error.ts';
import type { Addresses } from './addresses.ts';
import type { EcsEvent, EventfulServiceHost } from './ecs-events.ts';
import { endOf, failureOf, instanceOf } from './ecs-reports.ts';
import { CloudWatchLogs } from './logs.ts';
import { asRefusal } from './refusals.ts';
import { Scaling } from './scaling.ts';
import type { ServiceSettings } from './settings.ts';
import { ecsTags, orderTagsOf, readTags, type Tagged, tagsOf } from './tags.ts';
import { TaskDefinitions } from './task-definitions.ts';

/** Maximum batch sizes of DescribeServices and DescribeTasks. */
const SERVICES_BATCH = 10;
const TASKS_BATCH = 100;
/** Number of failed tasks after which ECS gives up a deployment. */
const MAX_FAILED_TASKS = 3;
/** Grace period for health checks after a task's start: some apps install or compile first. */
const HEALTH_GRACE_SECONDS = 120;
const MAX_TOKEN_LENGTH = 36;

export interface EcsServiceHostProps {
  readonly settings: ServiceSettings;
  readonly ecs: ECSClient;
  readonly scaling: ApplicationAutoScalingClient;
  readonly logs: CloudWatchLogsClient;
  readonly addresses: Addresses;
  readonly clock: Clock;
  readonly log: Log;
}

/** An existing ECS service and the state in its tags. */
interface Known extends Tagged {
  readonly arn: string;
  readonly desiredCount: number;
  readonly taskDefinition: string;
}

/**
 * {@link ServiceHost} on ECS and Fargate: a service is an ECS service named by its id, an instance is a task. The tags
 * of the ECS service identify the order that it follows, those of a task the order that it was started for; nothing is
 * stored outside ECS. The tag of an order is written last, so an interrupted order is repeated.
 *
 * It uses these AWS actions, on resources named by services' ids unless another resource is given:
 *
 * | call | actions |
 * | --- | --- |
 * | an order | `ecs:DescribeServices, CreateService, UpdateService, TagResource`; `ecs:RegisterTaskDefinition, ListTaskDefinitions, DeregisterTaskDefinition, DeleteTaskDefinitions`; `iam:PassRole` of the execution role; `logs:CreateLogGroup, PutRetentionPolicy, TagResource`; `application-autoscaling:RegisterScalableTarget, PutScalingPolicy, DeregisterScalableTarget`, which take `cloudwatch:PutMetricAlarm, DescribeAlarms, DeleteAlarms` and once `iam:CreateServiceLinkedRole` |
 * | a pause | `ecs:DescribeServices, UpdateService`; `application-autoscaling:DeregisterScalableTarget` |
 * | a removal | `ecs:DescribeServices, DeleteService, ListTaskDefinitions, DeregisterTaskDefinition, DeleteTaskDefinitions`; `application-autoscaling:DeregisterScalableTarget`; `logs:DeleteLogGroup` |
 * | the list, an event | `ecs:ListServices, DescribeServices, ListTasks, DescribeTasks` of the cluster |
 * | gateway addresses | `ecs:ListGatewayRoutes, DescribeGatewayRoute` |
 * | load balancer addresses | `elasticloadbalancing:DescribeTargetGroups, DescribeRules`, which cannot be restricted to resources; `CreateTargetGroup, ModifyTargetGroupAttributes, DeleteTargetGroup, CreateRule, DeleteRule, AddTags` |
 * | logs | `logs:FilterLogEvents` |
 */
export class EcsServiceHost implements EventfulServiceHost {
  readonly #props: EcsServiceHostProps;
  readonly #definitions: TaskDefinitions;
  readonly #scaling: Scaling;
  readonly #logs: CloudWatchLogs;

  constructor(props: EcsServiceHostProps) {
    const { settings, ecs, scaling, logs, clock } = props;
    this.#props = props;
    this.#definitions = new TaskDefinitions(ecs, settings);
    this.#scaling = new Scaling(scaling, settings.cluster);
    this.#logs = new CloudWatchLogs(logs, { place: settings, clock });
  }

  deploy(order: ServiceOrder): Promise<void> {
    return this.#follow(order);
  }

  update(order: ServiceOrder): Promise<void> {
    return this.#follow(order);
  }

  restart(order: ServiceOrder): Promise<void> {
    return this.#follow(order);
  }

  resume(order: ServiceOrder): Promise<void> {
    return this.#follow(order);
  }

  async #follow(order: ServiceOrder): Promise<void> {
    try {
      await this.#make(order);
    } catch (error) {
      this.#props.log.warn('AWS rejected the order for a service', { service_id: order.id, error: String(error) });
      throw asRefusal(error);
    }
  }

  async #make(order: ServiceOrder): Promise<void> {
    const { settings, addresses } = this.#props;
    const known = await this.#find(order.id);
    if (known !== undefined && known.revision > order.revision) return;
    const tags = tagsOf(settings.stage, order);
    await this.#logs.create(order.id, { retentionDays: settings.log_retention_days, tags });
    const isThere = known?.revision === order.revision && known.form === (await this.#definitions.form());
    const taskDefinition = isThere ? known.taskDefinition : await this.#definitions.register(order);
    if (known === undefined) await this.#create(order, taskDefinition, await addresses.connect(order));
    else await this.#update(order, known, taskDefinition);
    await this.#scaling.set(order);
    await this.#definitions.removeAllBut(taskDefinition, order.id);
  }

  async #create(
    order: ServiceOrder,
    taskDefinition: string,
    connection: Awaited<ReturnType<Addresses['connect']>>,
  ): Promise<void> {
    const { settings, ecs } = this.#props;
    const form = await this.#definitions.form();
    await ecs.send(
      new CreateServiceCommand({
        cluster: settings.cluster,
        serviceName: order.id,
        taskDefinition,
        // A repeated request creates only one service, and a repeated order finds it.
        clientToken: hash('sha256', taskDefinition).slice(0, MAX_TOKEN_LENGTH),
        desiredCount: order.minInstances,
        launchType: 'FARGATE',
        schedulingStrategy: 'REPLICA',
        deploymentConfiguration: deploymentOf(order),
        healthCheckGracePeriodSeconds: HEALTH_GRACE_SECONDS,
        // Moving an instance to another zone costs a restart.
        availabilityZoneRebalancing: 'DISABLED',
        enableExecuteCommand: false,
        enableECSManagedTags: true,
        // Tags each task with the revision that it was started for.
        propagateTags: 'TASK_DEFINITION',
        networkConfiguration: this.#network(),
        tags: ecsTags(orderTagsOf(settings.stage, form, order)),
        ...connection,
      }),
    );
  }

  async #update(order: ServiceOrder, known: Known, taskDefinition: string): Promise<void> {
    const { settings, ecs } = this.#props;
    const { minInstances, maxInstances } = order;
    const isThere = known.taskDefinition === taskDefinition;
    // Auto scaling has chosen a number in between, or the service was paused.
    const desiredCount = Math.min(Math.max(known.desiredCount, minInstances), maxInstances);
    if (isThere && desiredCount === known.desiredCount) return;
    await ecs.send(
      new UpdateServiceCommand({
        cluster: settings.cluster,
        service: order.id,
        desiredCount,
        ...(!isThere && {
          taskDefinition,
          deploymentConfiguration: deploymentOf(order),
          networkConfiguration: this.#network(),
        }),
      }),
    );
    const tags = ecsTags(orderTagsOf(settings.stage, await this.#definitions.form(), order));
    await ecs.send(new TagResourceCommand({ resourceArn: known.arn, tags }));
  }

  async pause({ id }: ServiceRef): Promise<void> {
    const { settings, ecs } = this.#props;
    if ((await this.#find(id)) === undefined) return;
    await this.#scaling.remove(id);
    await ecs.send(new UpdateServiceCommand({ cluster: settings.cluster, service: id, desiredCount: 0 }));
  }

  async remove({ id }: ServiceRef): Promise<void> {
    const { settings, ecs, addresses } = this.#props;
    await this.#scaling.remove(id);
    if ((await this.#describe([id])).some(({ status }) => status === 'ACTIVE')) {
      await ecs
        .send(new DeleteServiceCommand({ cluster: settings.cluster, service: id, force: true }))
        .catch(unless('ServiceNotFoundException', 'ServiceNotActiveException'));
    }
    await addresses.disconnect(id);
    await this.#definitions.removeAllBut(undefined, id);
    await this.#logs.remove(id);
  }

  address(service: ServiceRef): Promise<string | undefined> {
    return this.#props.addresses.addressOf(service);
  }

  logs(service: ServiceRef, query: ServiceLogQuery): Promise<ServiceLogLine[]> {
    return this.#logs.logs(service, query);
  }

  async *list(): AsyncGenerator<HostedService> {
    const { addresses, clock } = this.#props;
    const form = await this.#definitions.form();
    const [services, tasks, unreachable] = await Promise.all([this.#services(), this.#tasks(), addresses.failures()]);
    const tasksOf = Map.groupBy(tasks, ({ tags }) => readTags(tags)?.serviceId);
    for (const service of services) {
      const tagged = readTags(service.tags);
      if (tagged === undefined || service.status !== 'ACTIVE') continue;
      const { serviceId, workspaceId } = tagged;
      const own = tasksOf.get(serviceId) ?? [];
      const ends = endsOf(own);
      const failure = failureOf(service, { ends, unreachable: unreachable.get(serviceId), at: clock.now() });
      yield {
        serviceId,
        workspaceId,
        // Services with an outdated task definition form are ordered again.
        revision: tagged.form === form ? tagged.revision : 0,
        isPaused: service.desiredCount === 0,
        instances: own.flatMap((task) => instanceOf(task) ?? []),
        reports: failure === undefined ? ends : [...ends, failure],
      };
    }
  }

  async reportsOf(event: EcsEvent): Promise<ServiceReport[]> {
    if (event['detail-type'] === 'ECS Task State Change') {
      // The event has no tags, and may be outdated.
      const tasks = await this.#describeTasks([event.detail.taskArn]);
      return endsOf(tasks);
    }
    const id = event.resources[0]!.split('/').at(-1)!;
    const [[service], tasks] = await Promise.all([this.#describe([id]), this.#tasks(id)]);
    const at = this.#props.clock.now();
    const failure = service && failureOf(service, { ends: endsOf(tasks), unreachable: undefined, at });
    return failure === undefined ? [] : [failure];
  }

  /** Throws while a service with this name is still being deleted. */
  async #find(id: string): Promise<Known | undefined> {
    const [service] = await this.#describe([id]);
    if (service?.status === 'DRAINING') {
      throw new ServiceHostError('AWS is still deleting the service.', { isFinal: false });
    }
    if (service?.status !== 'ACTIVE') return undefined;
    const { serviceArn, desiredCount = 0, taskDefinition, tags } = service;
    const tagged = readTags(tags) ?? { serviceId: id, workspaceId: '', revision: 0, form: '' };
    return { ...tagged, arn: serviceArn!, desiredCount, taskDefinition: taskDefinition! };
  }

  async #describe(services: string[]): Promise<Service[]> {
    const { settings, ecs } = this.#props;
    const found = await ecs.send(
      new DescribeServicesCommand({ cluster: settings.cluster, services, include: ['TAGS'] }),
    );
    return found.services ?? [];
  }

  async #services(): Promise<Service[]> {
    const { settings, ecs } = this.#props;
    const arns: string[] = [];
    const pages = paginateListServices({ client: ecs, pageSize: 100 }, { cluster: settings.cluster });
    for await (const { serviceArns = [] } of pages) arns.push(...serviceArns);
    const services: Service[] = [];
    for (const batch of batchesOf(arns, SERVICES_BATCH)) services.push(...(await this.#describe(batch)));
    return services;
  }

  /** Returns all tasks of the cluster or of one service, including those that ended within the hour. */
  async #tasks(serviceName?: string): Promise<Task[]> {
    const { settings, ecs } = this.#props;
    const arns = new Set<string>();
    for (const desiredStatus of ['RUNNING', 'STOPPED'] as const) {
      const pages = paginateListTasks({ client: ecs }, { cluster: settings.cluster, serviceName, desiredStatus });
      for await (const { taskArns = [] } of pages) for (const arn of taskArns) arns.add(arn);
    }
    return this.#describeTasks([...arns]);
  }

  async #describeTasks(arns: readonly string[]): Promise<Task[]> {
    const { settings, ecs } = this.#props;
    const all: Task[] = [];
    for (const tasks of batchesOf(arns, TASKS_BATCH)) {
      const found = await ecs.send(new DescribeTasksCommand({ cluster: settings.cluster, tasks, include: ['TAGS'] }));
      all.push(...(found.tasks ?? []));
    }
    return all;
  }

  #network(): NetworkConfiguration {
    const { subnets, security_group, public_ip } = this.#props.settings;
    return {
      awsvpcConfiguration: {
        subnets,
        securityGroups: [security_group],
        assignPublicIp: public_ip ? 'ENABLED' : 'DISABLED',
      },
    };
  }
}

/** Oldest first. */
const endsOf = (tasks: readonly Task[]): InstanceEnd[] =>
  tasks.flatMap((task) => endOf(task) ?? []).sort((a, b) => a.at - b.at);

const deploymentOf = ({ overlap }: ServiceOrder): DeploymentConfiguration => ({
  strategy: 'ROLLING',
  minimumHealthyPercent: overlap ? 100 : 0,
  maximumPercent: overlap ? 200 : 100,
  deploymentCircuitBreaker: {
    enable: true,
    // A rollback would start instances that are missing from the records.
    rollback: false,
    thresholdConfiguration: { type: 'COUNT', value: MAX_FAILED_TASKS },
  },
});
