import { randomUUID } from 'node:crypto';
import type { FakeTaskDefinition } from './task-definitions.ts';
import { type Actions, arnOf, EcsError, type Input, invalid, nameIn, type Tag } from './wire.ts';

/** The running container of a task. */
export interface FakeContainer {
  /** Settles when the container has ended; a number is its exit code. */
  readonly exited: Promise<unknown>;
  /** Kills the container, by default with SIGKILL, which also simulates a lost host. */
  kill(signal?: 'SIGTERM' | 'SIGKILL'): void;
}

/** Task as DescribeTasks and EventBridge return it; EventBridge has times as ISO text. */
export interface FakeTask {
  readonly taskArn: string;
  readonly clusterArn: string;
  readonly taskDefinitionArn: string;
  readonly startedBy?: string;
  /** Group of the task, such as `service:<name>`. */
  readonly group?: string;
  readonly launchType: string;
  readonly capacityProviderName?: string;
  readonly lastStatus: string;
  readonly desiredStatus: string;
  readonly version: number;
  readonly createdAt: Date;
  readonly startedAt?: Date;
  readonly stoppingAt?: Date;
  readonly stoppedAt?: Date;
  readonly stopCode?: string;
  readonly stoppedReason?: string;
  readonly overrides: object;
  readonly containers: readonly {
    readonly name: string;
    readonly lastStatus: string;
    readonly exitCode?: number;
    readonly reason?: string;
  }[];
  readonly tags: readonly Tag[];
  readonly attachments: readonly {
    readonly type: 'eni';
    readonly status: string;
    readonly details: readonly { readonly name: string; readonly value: string }[];
  }[];
}

/** The part of EventBridge's event that functions may rely on. */
export interface TaskStateEvent {
  readonly id: string;
  readonly source: 'aws.ecs';
  readonly 'detail-type': 'ECS Task State Change';
  readonly resources: readonly string[];
  readonly detail: FakeTask;
}

/** Parameters of a task to start. */
export interface TaskOrder
  extends Pick<
    FakeTask,
    'clusterArn' | 'taskDefinitionArn' | 'startedBy' | 'group' | 'launchType' | 'capacityProviderName'
  > {
  readonly overrides?: object;
  readonly tags?: readonly Tag[];
  /** Set for definitions that were registered with this fake. */
  readonly definition?: FakeTaskDefinition;
}

/** Starts the image's program, listening on port 8080 of `address`, an address of this machine. */
export type StartContainer = (
  task: FakeTask,
  address: string,
  definition: FakeTaskDefinition | undefined,
) => Promise<FakeContainer>;

export type RunTaskFault = 'throttle' | 'failure' | 'error';

export interface TasksOptions {
  readonly start: StartContainer;
  /** ARNs of revisions that exist without registration. */
  readonly taskDefinitions: readonly string[];
  readonly definition: (name: string) => FakeTaskDefinition | undefined;
  /** Called once per event, in order; may throw. */
  readonly onEvent: ((event: TaskStateEvent) => unknown) | undefined;
  /** Called after each change of a task. */
  onChange(task: FakeTask): void;
}

/** Task ids of ECS are a UUID without dashes. */
const taskId = () => randomUUID().replaceAll('-', '');
let lastAddress = Math.floor(Math.random() * 2 ** 16) + 256;
/** Each task has its own loopback address and therefore its own port 8080, as on AWS. */
const nextAddress = (): string => {
  lastAddress = (lastAddress + 1) % 2 ** 20;
  return `127.${100 + ((lastAddress >> 16) & 0x0f)}.${(lastAddress >> 8) & 0xff}.${lastAddress & 0xff}`;
};

export const addressOf = ({ attachments }: FakeTask): string | undefined =>
  attachments[0]?.details.find(({ name }) => name === 'privateIPv4Address')?.value;

const SPOT = 'FARGATE_SPOT';

/** Fakes tasks: each starts a real program and emits an event for every state. */
export class FakeTasks {
  readonly #options: TasksOptions;
  readonly #tasks = new Map<string, FakeTask>();
  readonly #containers = new Map<string, FakeContainer>();
  readonly #byToken = new Map<string, { input: string; taskArn: string }>();
  readonly #lives = new Set<Promise<void>>();
  readonly refusals: RunTaskFault[] = [];
  /** Behavior of spare capacity: tasks start, RunTask fails, tasks never start, or tasks stop before they run. */
  spot: 'there' | 'none' | 'delayed' | 'fails' = 'there';
  #delivered: Promise<void> = Promise.resolve();

  constructor(options: TasksOptions) {
    this.#options = options;
  }

  /** All tasks in their current state, newest last. */
  get all(): FakeTask[] {
    return [...this.#tasks.values()];
  }

  find(name: unknown): FakeTask | undefined {
    if (typeof name !== 'string') return undefined;
    return this.#tasks.get(name) ?? this.all.find(({ taskArn }) => nameIn(taskArn) === name);
  }

  run({ overrides = {}, tags = [], definition, ...order }: TaskOrder): FakeTask {
    const task: FakeTask = {
      ...order,
      taskArn: arnOf(`task/${nameIn(order.clusterArn)}/${taskId()}`),
      lastStatus: 'PROVISIONING',
      desiredStatus: 'RUNNING',
      version: 1,
      createdAt: new Date(),
      overrides,
      tags,
      containers: (definition?.containerDefinitions ?? []).map(({ name }) => ({ name, lastStatus: 'PENDING' })),
      attachments: attachmentsOf(undefined, 'PRECREATED'),
    };
    this.#tasks.set(task.taskArn, task);
    const life = this.#live(task.taskArn, nextAddress(), definition).finally(() => this.#lives.delete(life));
    this.#lives.add(life);
    return task;
  }

  /** Stops a task at once or after `drained`: SIGTERM, then SIGKILL after the grace period of its definition. */
  async stop(
    taskArn: string,
    { stopCode, stoppedReason, drained }: { stopCode: string; stoppedReason?: string; drained?: Promise<unknown> },
  ): Promise<void> {
    const task = this.#tasks.get(taskArn)!;
    if (task.desiredStatus !== 'RUNNING') return;
    const isRunning = task.lastStatus === 'RUNNING';
    const definition = this.#options.definition(task.taskDefinitionArn);
    const container = this.#containers.get(taskArn);
    this.#change(taskArn, {
      ...{ desiredStatus: 'STOPPED', stopCode, stoppedReason, stoppingAt: new Date() },
      ...(isRunning && definition && { lastStatus: 'DEACTIVATING' }),
    });
    if (!isRunning || definition === undefined) return container?.kill();
    await drained;
    if (this.#tasks.get(taskArn)!.lastStatus !== 'DEACTIVATING') return;
    this.#change(taskArn, { lastStatus: 'STOPPING' });
    container?.kill('SIGTERM');
    const grace = Math.max(...definition.containerDefinitions.map(({ stopTimeout = 30 }) => stopTimeout));
    setTimeout(() => container?.kill(), grace * 1000).unref();
  }

  kill(taskArn: string): void {
    this.#containers.get(taskArn)?.kill();
  }

  /** Reclaims a task of spare capacity: notice and SIGTERM at once, SIGKILL after `graceMs`. */
  reclaim(taskArn: string, graceMs: number): void {
    if (this.#tasks.get(taskArn)?.capacityProviderName !== SPOT) throw new Error(`${taskArn} is not on ${SPOT}`);
    const container = this.#containers.get(taskArn);
    this.#change(taskArn, {
      ...{ desiredStatus: 'STOPPED', stopCode: 'SpotInterruption', stoppingAt: new Date() },
      stoppedReason: 'Your Spot Task was interrupted.',
    });
    container?.kill('SIGTERM');
    setTimeout(() => container?.kill(), graceMs).unref();
  }

  /** Resolves when all pending events are delivered. */
  async settled(): Promise<void> {
    for (let before: unknown; before !== this.#delivered; ) {
      before = this.#delivered;
      await this.#delivered;
    }
  }

  async close(): Promise<void> {
    for (const container of this.#containers.values()) container.kill();
    await Promise.allSettled(this.#lives);
  }

  #change(taskArn: string, changes: Partial<FakeTask>): FakeTask {
    const before = this.#tasks.get(taskArn)!;
    const task = { ...before, ...changes, version: before.version + 1 };
    this.#tasks.set(taskArn, task);
    const event = {
      id: randomUUID(),
      source: 'aws.ecs',
      'detail-type': 'ECS Task State Change',
      resources: [taskArn],
      detail: task,
    } as const;
    this.#delivered = this.#delivered.then(async () => {
      await Promise.resolve(this.#options.onEvent?.(event)).catch(() => {});
    });
    this.#options.onChange(task);
    return task;
  }

  async #live(taskArn: string, address: string, definition: FakeTaskDefinition | undefined): Promise<void> {
    const of = (lastStatus: string, more: object = {}) =>
      this.#tasks.get(taskArn)!.containers.map(({ name }) => ({ name, lastStatus, ...more }));
    this.#change(taskArn, { lastStatus: 'PENDING' });
    const stopped = Promise.withResolvers<undefined>();
    this.#containers.set(taskArn, { exited: Promise.resolve(), kill: () => stopped.resolve(undefined) });
    let stop = { stopCode: 'EssentialContainerExited', stoppedReason: 'Essential container in task exited' };
    let exitCode: number | undefined;
    try {
      const isSpot = this.#tasks.get(taskArn)!.capacityProviderName === SPOT;
      if (isSpot && this.spot === 'fails') throw new Error('Capacity is unavailable at this time.');
      const starting =
        isSpot && this.spot === 'delayed'
          ? new Promise<never>(() => {})
          : this.#options.start(this.#tasks.get(taskArn)!, address, definition);
      const container = await Promise.race([starting, stopped.promise]);
      if (container === undefined) void starting.then((late) => late.kill()).catch(() => {});
      else {
        this.#containers.set(taskArn, container);
        const startedAt = new Date();
        const attachments = attachmentsOf(address, 'ATTACHED');
        this.#change(taskArn, { lastStatus: 'RUNNING', startedAt, containers: of('RUNNING'), attachments });
        const ended = await container.exited;
        if (typeof ended === 'number') exitCode = ended;
      }
    } catch (error) {
      stop = { stopCode: 'TaskFailedToStart', stoppedReason: (error as Error).message };
    }
    const { stopCode, stoppedReason } = { ...stop, ...pick(this.#tasks.get(taskArn)!) };
    const stoppingAt = this.#tasks.get(taskArn)!.stoppingAt ?? new Date();
    this.#change(taskArn, {
      ...{ desiredStatus: 'STOPPED', lastStatus: 'DEPROVISIONING', stopCode, stoppedReason, stoppingAt },
      containers: of('STOPPED', { exitCode }),
    });
    const attachments = attachmentsOf(address, 'DELETED');
    this.#change(taskArn, { lastStatus: 'STOPPED', stoppedAt: new Date(), attachments });
  }

  readonly actions: Actions = {
    RunTask: (input) => {
      checkRunTask(input, this.#options.taskDefinitions);
      const refusal = this.refusals.shift();
      if (refusal === 'throttle') throw new EcsError('ThrottlingException', 'Rate exceeded');
      if (refusal === 'error') throw new EcsError('ServerException', 'internal');
      const [strategy] = input.capacityProviderStrategy ?? [];
      if (refusal === 'failure' || (strategy && this.spot === 'none')) {
        return { tasks: [], failures: [{ reason: 'Capacity is unavailable at this time.' }] };
      }
      const known = this.#byToken.get(input.clientToken);
      if (known !== undefined) {
        if (known.input !== JSON.stringify(input)) {
          throw new EcsError('ConflictException', 'another request had this token');
        }
        return { tasks: [this.#tasks.get(known.taskArn)], failures: [] };
      }
      const started = Array.from({ length: input.count ?? 1 }, () => {
        const task = this.run({
          clusterArn: input.cluster,
          taskDefinitionArn: input.taskDefinition,
          startedBy: input.startedBy,
          group: input.group,
          launchType: strategy ? 'FARGATE' : (input.launchType ?? 'EC2'),
          ...(strategy && { capacityProviderName: strategy.capacityProvider }),
          overrides: input.overrides,
          tags: input.tags,
        });
        if (input.clientToken) {
          this.#byToken.set(input.clientToken, { input: JSON.stringify(input), taskArn: task.taskArn });
        }
        return task;
      });
      return { tasks: started, failures: [] };
    },

    DescribeTasks: ({ tasks, include = [], cluster }) => {
      if (tasks.length < 1 || tasks.length > 100) throw invalid('tasks: 1 to 100 of them');
      const found = tasks.map((name: string) => {
        const task = this.find(name);
        return [name, task?.clusterArn === cluster ? task : undefined] as const;
      });
      return {
        tasks: found.flatMap(([, task]: [string, FakeTask?]) =>
          task ? { ...task, tags: include.includes('TAGS') ? task.tags : [] } : [],
        ),
        failures: found.flatMap(([name, task]: [string, FakeTask?]) =>
          task ? [] : [{ arn: name, reason: 'MISSING' }],
        ),
      };
    },

    ListTasks: ({ cluster, desiredStatus: wanted = 'RUNNING', startedBy, serviceName, family }) => {
      const matching = this.all.filter(
        (task) =>
          task.clusterArn === cluster &&
          task.desiredStatus === wanted &&
          (startedBy === undefined || task.startedBy === startedBy) &&
          (serviceName === undefined || task.group === `service:${nameIn(serviceName)}`) &&
          (family === undefined || nameIn(task.taskDefinitionArn).split(':')[0] === family),
      );
      return { taskArns: matching.map(({ taskArn }) => taskArn) };
    },

    StopTask: ({ task: name, reason }) => {
      const task = this.find(name);
      if (task === undefined) throw invalid('The referenced task was not found.');
      void this.stop(task.taskArn, { stopCode: 'UserInitiated', stoppedReason: reason });
      return { task: this.#tasks.get(task.taskArn) };
    },
  };
}

const pick = ({ stopCode, stoppedReason }: FakeTask): Partial<FakeTask> =>
  stopCode === undefined ? {} : { stopCode, stoppedReason };

const attachmentsOf = (address: string | undefined, status: string): FakeTask['attachments'] => [
  {
    type: 'eni',
    status,
    details: [
      { name: 'subnetId', value: 'subnet-0123456789abcdef0' },
      ...(address === undefined ? [] : [{ name: 'privateIPv4Address', value: address }]),
    ],
  },
];

/** Applies the checks of AWS's API reference. */
function checkRunTask(input: Input, taskDefinitions: readonly string[]): void {
  if (!taskDefinitions.includes(input.taskDefinition)) throw invalid('TaskDefinition not found.');
  const { launchType, capacityProviderStrategy: strategy = [] } = input;
  if (launchType !== undefined && strategy.length > 0) {
    throw invalid(
      'Specifying both a launch type and capacity provider strategy is not supported. Remove one and try again.',
    );
  }
  if (strategy.length === 0 && launchType !== 'FARGATE') throw invalid('launchType: nothing but FARGATE here');
  if (strategy.some(({ capacityProvider, weight }: Input) => capacityProvider !== SPOT || !(weight > 0))) {
    throw invalid(`capacityProviderStrategy: nothing but ${SPOT} with a weight here`);
  }
  const { count = 1, clientToken = '', startedBy = '', overrides = {}, tags = [] } = input;
  if (!(count >= 1 && count <= 10)) throw invalid('count: 1 to 10');
  if (clientToken.length > 64) throw invalid('clientToken: at most 64 characters');
  if (!/^[A-Za-z0-9/_-]{0,128}$/.test(startedBy)) throw invalid('startedBy: at most 128 of A-Z a-z 0-9 / _ -');
  if (JSON.stringify(overrides).length > 8192) throw invalid('Container Overrides length must be at most 8192');
  if (tags.length > 50) throw invalid('tags: at most 50');
  checkNetwork(input);
}

/** Checks the network configuration: only `awsvpc` is supported. */
export function checkNetwork(input: Input): void {
  const { subnets = [], securityGroups = [], assignPublicIp } = input.networkConfiguration?.awsvpcConfiguration ?? {};
  if (subnets.length < 1 || subnets.length > 16) throw invalid('subnets: 1 to 16 of them, with awsvpc');
  if (securityGroups.length > 5) throw invalid('securityGroups: at most 5');
  if (!['ENABLED', 'DISABLED', undefined].includes(assignPublicIp))
    throw invalid('assignPublicIp: ENABLED or DISABLED');
}
