import { randomInt, randomUUID } from 'node:crypto';
import type { FakeGateways } from './gateways.ts';
import type { FakeTaskDefinition, TaskDefinitions } from './task-definitions.ts';
import { addressOf, checkNetwork, type FakeTask, type FakeTasks } from './tasks.ts';
import { type Actions, arnOf, EcsError, type Input, invalid, nameIn, pageOf, type Tag } from './wire.ts';

/** The part of EventBridge's event that functions may rely on. */
export interface DeploymentStateEvent {
  readonly id: string;
  readonly source: 'aws.ecs';
  readonly 'detail-type': 'ECS Deployment State Change';
  /** The service. */
  readonly resources: readonly string[];
  readonly detail: {
    readonly eventType: 'INFO' | 'ERROR';
    readonly eventName: 'SERVICE_DEPLOYMENT_IN_PROGRESS' | 'SERVICE_DEPLOYMENT_COMPLETED' | 'SERVICE_DEPLOYMENT_FAILED';
    readonly clusterArn: string;
    readonly deploymentId: string;
    readonly updatedAt: Date;
    readonly reason: string;
  };
}

interface Deployment {
  readonly id: string;
  readonly taskDefinition: string;
  readonly createdAt: Date;
  updatedAt: Date;
  rolloutState: 'IN_PROGRESS' | 'COMPLETED' | 'FAILED';
  rolloutStateReason: string;
  failedTasks: number;
  /** Failed starts in a row. */
  failures: number;
  notBefore: number;
}

interface Service {
  readonly serviceArn: string;
  readonly serviceName: string;
  readonly clusterArn: string;
  readonly createdAt: Date;
  readonly clientToken: string | undefined;
  status: 'ACTIVE' | 'DRAINING' | 'INACTIVE';
  desiredCount: number;
  tags: Tag[];
  /** The settings of CreateService, with the changes of later updates. */
  settings: Input;
  /** Deployments of the service, newest first. */
  deployments: Deployment[];
}

export interface FakeServicesOptions {
  readonly tasks: FakeTasks;
  readonly definitions: TaskDefinitions;
  readonly gateways: FakeGateways;
  readonly onEvent: ((event: DeploymentStateEvent) => unknown) | undefined;
  /** Resolves when no request to this address is in flight; the address gets no new ones. */
  readonly drained: (address: string) => Promise<unknown>;
}

/** Destination to which a load balancer may send requests. */
export interface Target {
  /** Address whose port 8080 the load balancer uses. */
  readonly address: string;
  readonly taskArn: string;
}

/** Interval of health checks; overrides the service's own interval, so that tests do not wait. */
const PROBE_MS = 150;
const CONFIGURATION = { minimumHealthyPercent: 100, maximumPercent: 200 };

/**
 * Fakes ECS's service scheduler: keeps the desired number of tasks, rolls out deployments between the two percentages,
 * treats a load-balanced task as healthy once `/health` answers 200, and stops a deployment whose tasks keep failing.
 */
export class FakeServices {
  readonly #options: FakeServicesOptions;
  readonly #services = new Map<string, Service>();
  readonly #deploymentOf = new Map<string, Deployment>();
  readonly #healthy = new Set<string>();
  readonly #unhealthySince = new Map<string, number>();
  readonly #ended = new Set<string>();
  readonly #timer: NodeJS.Timeout;
  #isProbing = false;

  constructor(options: FakeServicesOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.#probeAll(), PROBE_MS);
  }

  /** Names of the existing services. */
  get names(): string[] {
    return this.#alive().map(({ serviceName }) => serviceName);
  }

  /** Returns the targets of a service or target group that may get requests. */
  targetsOf(arn: string): Target[] {
    const services = this.#alive().filter(
      ({ serviceArn, settings }) =>
        serviceArn === arn || settings.loadBalancers?.some((each: Input) => each.targetGroupArn === arn),
    );
    return services
      .flatMap((service) => this.#tasksOf(service))
      .filter((task) => this.#isServing(task))
      .flatMap((task) => {
        const address = addressOf(task);
        return address === undefined ? [] : [{ address, taskArn: task.taskArn }];
      });
  }

  /** Handles a change of a task. */
  taskChanged(task: FakeTask): void {
    const service = this.#services.get(task.group?.replace('service:', '') ?? '');
    if (service === undefined) return;
    if (task.lastStatus === 'STOPPED' && !this.#ended.has(task.taskArn)) {
      this.#ended.add(task.taskArn);
      this.#taskEnded(service, task);
    }
    queueMicrotask(() => this.#keep(service));
  }

  close(): void {
    clearInterval(this.#timer);
    for (const service of this.#services.values()) service.status = 'INACTIVE';
  }

  #alive(): Service[] {
    return [...this.#services.values()].filter(({ status }) => status !== 'INACTIVE');
  }

  #tasksOf({ serviceName }: Service): FakeTask[] {
    return this.#options.tasks.all.filter(
      ({ group, lastStatus }) => group === `service:${serviceName}` && lastStatus !== 'STOPPED',
    );
  }

  #isServing(task: FakeTask): boolean {
    return task.lastStatus === 'RUNNING' && task.desiredStatus === 'RUNNING' && this.#healthy.has(task.taskArn);
  }

  /** Moves a service toward its desired state; called after every relevant change. */
  #keep(service: Service): void {
    if (service.status === 'INACTIVE') return;
    const [primary] = service.deployments;
    const alive = this.#tasksOf(service);
    const staying = alive.filter(({ desiredStatus }) => desiredStatus === 'RUNNING');
    const desired = service.status === 'DRAINING' ? 0 : service.desiredCount;
    if (service.status === 'DRAINING' && alive.length === 0) {
      service.status = 'INACTIVE';
      service.deployments = [];
      return;
    }
    if (primary === undefined) return;
    const current = staying.filter(({ taskArn }) => this.#deploymentOf.get(taskArn) === primary);
    const old = staying.filter(({ taskArn }) => this.#deploymentOf.get(taskArn) !== primary);
    const { minimumHealthyPercent, maximumPercent } = { ...CONFIGURATION, ...service.settings.deploymentConfiguration };
    const least = Math.ceil((desired * minimumHealthyPercent) / 100);
    const most = Math.floor((desired * maximumPercent) / 100);
    const hasFailed = primary.rolloutState === 'FAILED';
    for (const task of current.slice(desired)) this.#stop(task, 'Scaling activity initiated by deployment');
    if (desired === 0) for (const task of old) this.#stop(task, 'Scaling activity initiated by deployment');
    else if (!hasFailed) {
      let healthy = staying.filter((task) => this.#isServing(task)).length;
      const isReplaced = current.filter((task) => this.#isServing(task)).length >= desired;
      for (const task of old) {
        const isServing = this.#isServing(task);
        if (isServing && !isReplaced && healthy - 1 < least) continue;
        if (isServing) healthy -= 1;
        this.#stop(task, `(deployment ${primary.id}) was replaced`);
      }
      const waitMs = primary.notBefore - Date.now();
      if (waitMs > 0) setTimeout(() => this.#keep(service), waitMs).unref();
      else {
        // Stopping tasks count toward the maximum.
        const room = most - this.#tasksOf(service).length;
        const missing = desired - current.length;
        for (let count = 0; count < Math.min(missing, room); count++) this.#start(service, primary);
      }
    }
    this.#settle(service, primary, desired);
  }

  #start(service: Service, deployment: Deployment): void {
    const { tasks, definitions } = this.#options;
    const { propagateTags, launchType, enableECSManagedTags } = service.settings;
    const definition = definitions.find(deployment.taskDefinition)!;
    const task = tasks.run({
      clusterArn: service.clusterArn,
      taskDefinitionArn: deployment.taskDefinition,
      startedBy: deployment.id,
      group: `service:${service.serviceName}`,
      launchType: launchType ?? 'FARGATE',
      tags: [
        ...(propagateTags === 'SERVICE' ? service.tags : []),
        ...(propagateTags === 'TASK_DEFINITION' ? definition.tags : []),
        ...(enableECSManagedTags ? managedTags(service) : []),
      ],
      definition,
    });
    this.#deploymentOf.set(task.taskArn, deployment);
  }

  #stop(task: FakeTask, stoppedReason: string): void {
    const address = addressOf(task);
    void this.#options.tasks.stop(task.taskArn, {
      stopCode: 'ServiceSchedulerInitiated',
      stoppedReason,
      drained: address === undefined ? undefined : this.#options.drained(address),
    });
  }

  #taskEnded(service: Service, task: FakeTask): void {
    const deployment = this.#deploymentOf.get(task.taskArn);
    const wasHealthy = this.#healthy.delete(task.taskArn);
    this.#unhealthySince.delete(task.taskArn);
    if (deployment === undefined) return;
    const isReplaced = task.stopCode === 'ServiceSchedulerInitiated' && !task.stoppedReason?.includes('health checks');
    if (isReplaced || task.stopCode === 'UserInitiated') return;
    deployment.failures += 1;
    deployment.notBefore = Date.now() + Math.min(2000, 100 * 2 ** deployment.failures);
    if (wasHealthy || deployment.rolloutState !== 'IN_PROGRESS') return;
    deployment.failedTasks += 1;
    const { enable = false } = service.settings.deploymentConfiguration?.deploymentCircuitBreaker ?? {};
    if (!enable || deployment.failedTasks < thresholdOf(service)) return;
    this.#become(service, deployment, 'FAILED', 'ECS deployment circuit breaker: tasks failed to start.');
  }

  /** Completes the rollout once only its own tasks remain and enough of them are serving. */
  #settle(service: Service, primary: Deployment, desired: number): void {
    const staying = this.#tasksOf(service).filter(({ desiredStatus }) => desiredStatus === 'RUNNING');
    const isOurs = (task: FakeTask) => this.#deploymentOf.get(task.taskArn) === primary;
    if (!staying.every(isOurs)) return;
    const serving = staying.filter((task) => this.#isServing(task)).length;
    if (primary.rolloutState !== 'IN_PROGRESS' || serving < desired) return;
    service.deployments = [primary];
    this.#become(service, primary, 'COMPLETED', `ECS deployment ${primary.id} completed.`);
  }

  #become(service: Service, deployment: Deployment, state: Deployment['rolloutState'], reason: string): void {
    Object.assign(deployment, { rolloutState: state, rolloutStateReason: reason, updatedAt: new Date() });
    this.#options.onEvent?.({
      id: randomUUID(),
      source: 'aws.ecs',
      'detail-type': 'ECS Deployment State Change',
      resources: [service.serviceArn],
      detail: {
        eventType: state === 'FAILED' ? 'ERROR' : 'INFO',
        eventName: `SERVICE_DEPLOYMENT_${state}`,
        clusterArn: service.clusterArn,
        deploymentId: deployment.id,
        updatedAt: deployment.updatedAt,
        reason,
      },
    });
  }

  async #probeAll(): Promise<void> {
    if (this.#isProbing) return;
    this.#isProbing = true;
    const probed = this.#alive().flatMap((service) =>
      this.#tasksOf(service)
        .filter(({ lastStatus, desiredStatus }) => lastStatus === 'RUNNING' && desiredStatus === 'RUNNING')
        .map((task) => this.#probe(service, task)),
    );
    await Promise.allSettled(probed);
    this.#isProbing = false;
  }

  async #probe(service: Service, task: FakeTask): Promise<void> {
    const { gatewayConnectors = [], loadBalancers = [], healthCheckGracePeriodSeconds: grace = 0 } = service.settings;
    const isBalanced = gatewayConnectors.length + loadBalancers.length > 0;
    const isHealthy = !isBalanced || (await answersHealthy(addressOf(task)!));
    if (this.#ended.has(task.taskArn)) return;
    const wasHealthy = this.#healthy.has(task.taskArn);
    if (isHealthy) {
      this.#unhealthySince.delete(task.taskArn);
      const deployment = this.#deploymentOf.get(task.taskArn);
      if (deployment) Object.assign(deployment, { failures: 0, notBefore: 0 });
      this.#healthy.add(task.taskArn);
    } else {
      this.#healthy.delete(task.taskArn);
      const since = this.#unhealthySince.get(task.taskArn) ?? Date.now();
      this.#unhealthySince.set(task.taskArn, since);
      const { healthCheckIntervalSeconds = 30, unhealthyThresholdCount = 3 } = gatewayConnectors[0]?.healthCheck ?? {};
      const limitMs = healthCheckIntervalSeconds * unhealthyThresholdCount * 1000;
      const isPastGrace = Date.now() > task.startedAt!.getTime() + grace * 1000;
      if (isPastGrace && Date.now() - since > limitMs) this.#stop(task, 'Task failed ELB health checks');
    }
    if (wasHealthy !== isHealthy) this.#keep(service);
  }

  #find(name: unknown, clusterArn: string): Service | undefined {
    const found = this.#services.get(nameIn(String(name)));
    return found?.clusterArn === clusterArn ? found : undefined;
  }

  #active(name: unknown, clusterArn: string): Service {
    const found = this.#find(name, clusterArn);
    if (found === undefined || found.status === 'INACTIVE') {
      throw new EcsError('ServiceNotFoundException', 'Service not found.');
    }
    if (found.status !== 'ACTIVE') throw new EcsError('ServiceNotActiveException', 'Service was not ACTIVE.');
    return found;
  }

  #deploy(service: Service, taskDefinition: string): void {
    const now = new Date();
    const deployment: Deployment = {
      id: `ecs-svc/${randomInt(1e12, 9e12)}`,
      taskDefinition,
      ...{ createdAt: now, updatedAt: now, rolloutState: 'IN_PROGRESS', rolloutStateReason: '' },
      ...{ failedTasks: 0, failures: 0, notBefore: 0 },
    };
    service.deployments.unshift(deployment);
    this.#become(service, deployment, 'IN_PROGRESS', `ECS deployment ${deployment.id} in progress.`);
    queueMicrotask(() => this.#keep(service));
  }

  #view(service: Service, include: readonly string[]): object {
    const { tags, settings, deployments, clientToken: _, ...rest } = service;
    const { gatewayConnectors: __, cluster: ___, service: ____, forceNewDeployment: _____, ...shown } = settings;
    const tasks = this.#tasksOf(service);
    const count = (of: FakeTask[], status: 'RUNNING' | 'PENDING') =>
      of.filter(
        (task) => task.desiredStatus === 'RUNNING' && (task.lastStatus === 'RUNNING') === (status === 'RUNNING'),
      ).length;
    return {
      ...shown,
      ...rest,
      taskDefinition: deployments[0]?.taskDefinition ?? settings.taskDefinition,
      runningCount: count(tasks, 'RUNNING'),
      pendingCount: count(tasks, 'PENDING'),
      events: [],
      deployments: deployments.map(({ failures: _, notBefore: __, ...deployment }, index) => {
        const own = tasks.filter(({ taskArn }) => this.#deploymentOf.get(taskArn)?.id === deployment.id);
        return {
          ...deployment,
          status: index === 0 ? 'PRIMARY' : 'ACTIVE',
          desiredCount: index === 0 && deployment.rolloutState !== 'FAILED' ? service.desiredCount : own.length,
          runningCount: count(own, 'RUNNING'),
          pendingCount: count(own, 'PENDING'),
        };
      }),
      ...(include.includes('TAGS') && { tags }),
    };
  }

  readonly actions: Actions = {
    CreateService: (input) => {
      const { cluster: clusterArn, serviceName, clientToken, tags = [], desiredCount, ...settings } = input;
      if (!/^[A-Za-z0-9_-]{1,255}$/.test(serviceName)) throw invalid('serviceName: letters, digits, "-" and "_"');
      if ((clientToken ?? '').length > 36) throw invalid('clientToken: at most 36 characters');
      const known = this.#services.get(serviceName);
      if (known?.status === 'ACTIVE') {
        if (clientToken !== undefined && known.clientToken === clientToken) return { service: this.#view(known, []) };
        throw invalid('Creation of service was not idempotent.');
      }
      if (known?.status === 'DRAINING') throw invalid('Unable to Start a service that is still Draining.');
      if (!(desiredCount >= 0)) throw invalid('desiredCount: at least 0');
      const definition = this.#options.definitions.active(settings.taskDefinition);
      this.#check(clusterArn, settings, definition, tags);
      const service: Service = {
        serviceArn: arnOf(`service/${nameIn(clusterArn)}/${serviceName}`),
        ...{ serviceName, clusterArn, clientToken, desiredCount, settings, tags },
        ...{ createdAt: new Date(), status: 'ACTIVE', deployments: [] },
      };
      this.#services.set(serviceName, service);
      this.#options.gateways.attach(clusterArn, service.serviceArn, settings.gatewayConnectors ?? []);
      this.#deploy(service, definition.taskDefinitionArn);
      return { service: this.#view(service, ['TAGS']) };
    },

    UpdateService: (input) => {
      const {
        cluster: clusterArn,
        service: name,
        desiredCount,
        forceNewDeployment,
        taskDefinition,
        ...changes
      } = input;
      const service = this.#active(name, clusterArn);
      const before = service.deployments[0]!.taskDefinition;
      const { definitions } = this.#options;
      const definition = taskDefinition === undefined ? definitions.find(before)! : definitions.active(taskDefinition);
      const settings = { ...service.settings, ...changes, taskDefinition: definition.taskDefinitionArn };
      this.#check(clusterArn, settings, definition, []);
      const replaced = ['networkConfiguration', 'gatewayConnectors', 'loadBalancers', 'platformVersion'];
      const isNew =
        forceNewDeployment === true ||
        definition.taskDefinitionArn !== before ||
        replaced.some(
          (member) => member in changes && JSON.stringify(changes[member]) !== JSON.stringify(service.settings[member]),
        );
      Object.assign(service, { settings, desiredCount: desiredCount ?? service.desiredCount });
      if (isNew) this.#deploy(service, definition.taskDefinitionArn);
      queueMicrotask(() => this.#keep(service));
      return { service: this.#view(service, ['TAGS']) };
    },

    DeleteService: ({ cluster: clusterArn, service: name, force = false }) => {
      const service = this.#find(name, clusterArn);
      if (service === undefined || service.status === 'INACTIVE') {
        throw new EcsError('ServiceNotFoundException', 'Service not found.');
      }
      if (service.desiredCount > 0 && !force) {
        throw invalid('The service cannot be stopped while it is scaled above 0.');
      }
      service.status = 'DRAINING';
      this.#options.gateways.detach(service.serviceArn);
      const answer = { service: this.#view(service, []) };
      queueMicrotask(() => this.#keep(service));
      return answer;
    },

    DescribeServices: ({ cluster: clusterArn, services, include = [] }) => {
      if (services.length < 1 || services.length > 10) throw invalid('services: 1 to 10 of them');
      const found: (readonly [string, Service | undefined])[] = services.map((name: string) => [
        name,
        this.#find(name, clusterArn),
      ]);
      return {
        services: found.flatMap(([, service]) => (service ? [this.#view(service, include)] : [])),
        failures: found.flatMap(([name, service]) => (service ? [] : [{ arn: name, reason: 'MISSING' }])),
      };
    },

    DescribeClusters: ({ clusters }) => ({
      clusters: clusters.map((name: string) => {
        const clusterArn = arnOf(`cluster/${nameIn(name)}`);
        const own = this.#options.tasks.all.filter((task) => task.clusterArn === clusterArn);
        const count = (isWanted: (status: string) => boolean) =>
          own.filter(({ lastStatus }) => lastStatus !== 'STOPPED' && isWanted(lastStatus)).length;
        return {
          ...{ clusterArn, clusterName: nameIn(name), status: 'ACTIVE' },
          activeServicesCount: this.#alive().filter((service) => service.clusterArn === clusterArn).length,
          runningTasksCount: count((status) => status === 'RUNNING'),
          pendingTasksCount: count((status) => status !== 'RUNNING'),
        };
      }),
      failures: [],
    }),

    ListServices: ({ cluster: clusterArn, maxResults = 10, ...input }) => {
      const arns = this.#alive()
        .filter((service) => service.clusterArn === clusterArn)
        .map(({ serviceArn }) => serviceArn);
      const [serviceArns, nextToken] = pageOf(arns, { ...input, maxResults });
      return { serviceArns, nextToken };
    },

    TagResource: ({ resourceArn, tags }) => {
      const service = this.#tagged(resourceArn);
      const kept = service.tags.filter(({ key }) => !tags.some((tag: Tag) => tag.key === key));
      service.tags = checkedTags([...kept, ...tags]);
      return {};
    },

    UntagResource: ({ resourceArn, tagKeys }) => {
      const service = this.#tagged(resourceArn);
      service.tags = service.tags.filter(({ key }) => !tagKeys.includes(key));
      return {};
    },

    ListTagsForResource: ({ resourceArn }) => ({ tags: this.#tagged(resourceArn).tags }),
  };

  #tagged(arn: string): Service {
    const service = this.#alive().find(({ serviceArn }) => serviceArn === arn);
    if (service === undefined) throw invalid('The specified resource is not found, or is no service.');
    return service;
  }

  #check(clusterArn: string, settings: Input, definition: FakeTaskDefinition, tags: Tag[]): void {
    const {
      gatewayConnectors = [],
      loadBalancers = [],
      launchType = 'FARGATE',
      deploymentConfiguration = {},
    } = settings;
    if (launchType !== 'FARGATE') throw invalid('launchType: nothing but FARGATE here');
    checkNetwork(settings);
    checkedTags(tags);
    const { minimumHealthyPercent, maximumPercent } = { ...CONFIGURATION, ...deploymentConfiguration };
    if (minimumHealthyPercent >= maximumPercent) {
      throw invalid('deploymentConfiguration: maximumPercent must be greater than minimumHealthyPercent');
    }
    const ports = definition.containerDefinitions.flatMap(({ name, portMappings = [] }) =>
      portMappings.map((port) => ({ ...port, container: name })),
    );
    this.#options.gateways.check(
      clusterArn,
      gatewayConnectors,
      ports.flatMap(({ name }) => name ?? []),
    );
    for (const { targetGroupArn, containerName, containerPort } of loadBalancers) {
      const fits = ports.some((port) => port.container === containerName && port.containerPort === containerPort);
      if (!targetGroupArn || !fits)
        throw invalid(`The container ${containerName} did not have a port ${containerPort}.`);
    }
    const isBalanced = gatewayConnectors.length + loadBalancers.length > 0;
    if (settings.healthCheckGracePeriodSeconds !== undefined && !isBalanced) {
      throw invalid('Health check grace period is only valid for services configured to use load balancers.');
    }
  }
}

function checkedTags(tags: Tag[]): Tag[] {
  if (tags.length > 50) throw invalid('tags: at most 50');
  for (const { key, value } of tags) {
    if (!key || key.length > 128 || (value ?? '').length > 256)
      throw invalid('tags: keys to 128, values to 256 characters');
    if (/^aws:/i.test(key)) throw invalid('tags: aws: is reserved');
  }
  return tags;
}

const managedTags = ({ clusterArn, serviceName }: Service): Tag[] => [
  { key: 'aws:ecs:clusterName', value: nameIn(clusterArn) },
  { key: 'aws:ecs:serviceName', value: serviceName },
];

/** Number of failed tasks that fails a deployment: half of the desired count, within bounds, unless configured. */
function thresholdOf({ desiredCount, settings }: Service): number {
  const { type, value } = settings.deploymentConfiguration.deploymentCircuitBreaker.thresholdConfiguration ?? {};
  return type === 'COUNT' ? value : Math.min(200, Math.max(3, Math.ceil(desiredCount / 2)));
}

async function answersHealthy(address: string): Promise<boolean> {
  try {
    const answer = await fetch(`http://${address}:8080/health`, { signal: AbortSignal.timeout(5000) });
    await answer.body?.cancel();
    return answer.status === 200;
  } catch {
    return false;
  }
}
