import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { TEST_ACCOUNT, TEST_REGION } from './templates.ts';

/** The running container of a task. */
export interface FakeContainer {
  /** Settles when the container has ended in any way. */
  readonly exited: Promise<void>;
  /** SIGKILL, also used to simulate a lost host. */
  kill(): void;
}

/** The part of EventBridge's event that functions may rely on. */
export interface TaskStateEvent {
  readonly id: string;
  readonly source: 'aws.ecs';
  readonly 'detail-type': 'ECS Task State Change';
  readonly detail: FakeTask;
}

export interface FakeTask {
  readonly taskArn: string;
  readonly clusterArn: string;
  readonly taskDefinitionArn: string;
  readonly startedBy?: string;
  readonly launchType: string;
  readonly lastStatus: string;
  readonly desiredStatus: string;
  readonly version: number;
  readonly stopCode?: string;
  readonly stoppedReason?: string;
  readonly overrides: object;
  readonly attachments: readonly {
    readonly type: 'eni';
    readonly status: string;
    readonly details: readonly { readonly name: string; readonly value: string }[];
  }[];
}

export interface FakeEcsOptions {
  readonly cluster: string;
  /** ARNs of the existing revisions. */
  readonly taskDefinitions: readonly string[];
  /** Starts the image's program, listening on port 8080 of `address`, an address of this machine. */
  start(task: FakeTask, address: string): Promise<FakeContainer>;
  /** Called once per event, in order; may throw. */
  onEvent?(event: TaskStateEvent): unknown;
}

export interface FakeEcs {
  readonly url: string;
  /** All tasks ever started in their current state, newest last. */
  readonly tasks: readonly FakeTask[];
  /** Names of the requested actions, in order. */
  readonly requests: readonly string[];
  /** Refuses the next `count` RunTask calls, or answers them with a placement failure. */
  refuse(count: number, how: 'throttle' | 'failure' | 'error'): void;
  /** From now on RunTask starts tasks again. */
  stopRefusing(): void;
  /** Starts the tasks of the next `count` RunTask calls and loses the answers. */
  loseAnswers(count: number): void;
  /** Simulates the death of a task's host. */
  kill(taskArn: string): void;
  /** Resolves when all pending events are delivered. */
  settled(): Promise<void>;
  close(): Promise<void>;
}

class EcsError extends Error {
  readonly type: string;
  constructor(type: string, message: string) {
    super(message);
    this.type = type;
  }
}
const invalid = (message: string) => new EcsError('InvalidParameterException', message);

// biome-ignore lint/suspicious/noExplicitAny: the input of any action.
type Input = any;

/** Task ids of ECS are a UUID without dashes. */
const taskId = () => randomUUID().replaceAll('-', '');
let lastAddress = Math.floor(Math.random() * 2 ** 16) + 256;
/** A different loopback address per task: each has its own port 8080, as on AWS. */
const nextAddress = (): string => {
  lastAddress = (lastAddress + 1) % 2 ** 20;
  return `127.${100 + ((lastAddress >> 16) & 0x0f)}.${(lastAddress >> 8) & 0xff}.${lastAddress & 0xff}`;
};

/**
 * ECS on the SDK's wire protocol, as far as the sandboxes need it: RunTask really starts something, tasks go through their
 * states with an event for each, and what AWS refuses is refused.
 */
export async function startFakeEcs(options: FakeEcsOptions): Promise<FakeEcs> {
  const { cluster } = options;
  const arn = (rest: string) => `arn:aws:ecs:${TEST_REGION}:${TEST_ACCOUNT}:${rest}`;
  const tasks = new Map<string, FakeTask>();
  const containers = new Map<string, FakeContainer>();
  const byToken = new Map<string, { input: string; taskArn: string }>();
  const requests: string[] = [];
  const refusals: ('throttle' | 'failure' | 'error')[] = [];
  let answersToLose = 0;
  let delivered: Promise<void> = Promise.resolve();
  const lives = new Set<Promise<void>>();

  const change = (taskArn: string, changes: Partial<FakeTask>): FakeTask => {
    const before = tasks.get(taskArn)!;
    const task = { ...before, ...changes, version: before.version + 1 };
    tasks.set(taskArn, task);
    const event = {
      id: randomUUID(),
      source: 'aws.ecs',
      'detail-type': 'ECS Task State Change',
      detail: task,
    } as const;
    delivered = delivered.then(async () => {
      await Promise.resolve(options.onEvent?.(event)).catch(() => {});
    });
    return task;
  };

  const live = async (taskArn: string, address: string): Promise<void> => {
    change(taskArn, { lastStatus: 'PENDING' });
    const stopped = Promise.withResolvers<undefined>();
    containers.set(taskArn, { exited: Promise.resolve(), kill: () => stopped.resolve(undefined) });
    const starting = options.start(tasks.get(taskArn)!, address);
    const container = await Promise.race([starting, stopped.promise]);
    if (container === undefined) void starting.then((late) => late.kill());
    else {
      containers.set(taskArn, container);
      change(taskArn, { lastStatus: 'RUNNING', attachments: attachmentsOf(address, 'ATTACHED') });
      await container.exited;
    }
    const stop = { stopCode: 'EssentialContainerExited', stoppedReason: 'Essential container in task exited' };
    const { stopCode, stoppedReason } = { ...stop, ...pick(tasks.get(taskArn)!) };
    change(taskArn, { desiredStatus: 'STOPPED', lastStatus: 'DEPROVISIONING', stopCode, stoppedReason });
    change(taskArn, { lastStatus: 'STOPPED', attachments: attachmentsOf(address, 'DELETED') });
  };

  const find = (name: unknown): FakeTask | undefined =>
    typeof name === 'string'
      ? [...tasks.values()].find(({ taskArn }) => taskArn === name || taskArn.endsWith(`/${name}`))
      : undefined;

  const actions: Record<string, (input: Input) => object> = {
    RunTask(input) {
      checkRunTask(input, options.taskDefinitions);
      const refusal = refusals.shift();
      if (refusal === 'throttle') throw new EcsError('ThrottlingException', 'Rate exceeded');
      if (refusal === 'error') throw new EcsError('ServerException', 'internal');
      if (refusal === 'failure') return { tasks: [], failures: [{ reason: 'Capacity is unavailable at this time.' }] };
      const known = byToken.get(input.clientToken);
      if (known !== undefined) {
        if (known.input !== JSON.stringify(input))
          throw new EcsError('ConflictException', 'another request had this token');
        return { tasks: [tasks.get(known.taskArn)], failures: [] };
      }
      const started = Array.from({ length: input.count ?? 1 }, () => {
        const address = nextAddress();
        const task: FakeTask = {
          taskArn: arn(`task/${cluster}/${taskId()}`),
          clusterArn: arn(`cluster/${cluster}`),
          taskDefinitionArn: input.taskDefinition,
          startedBy: input.startedBy,
          launchType: input.launchType ?? 'EC2',
          lastStatus: 'PROVISIONING',
          desiredStatus: 'RUNNING',
          version: 1,
          overrides: input.overrides ?? {},
          attachments: attachmentsOf(undefined, 'PRECREATED'),
        };
        tasks.set(task.taskArn, task);
        if (input.clientToken) byToken.set(input.clientToken, { input: JSON.stringify(input), taskArn: task.taskArn });
        const life = live(task.taskArn, address).finally(() => lives.delete(life));
        lives.add(life);
        return task;
      });
      return { tasks: started, failures: [] };
    },

    DescribeTasks(input) {
      if (!Array.isArray(input.tasks) || input.tasks.length < 1 || input.tasks.length > 100) {
        throw invalid('tasks: 1 to 100 of them');
      }
      const found = input.tasks.map((name: string) => [name, find(name)] as const);
      return {
        tasks: found.flatMap(([, task]: [string, FakeTask?]) => task ?? []),
        failures: found.flatMap(([name, task]: [string, FakeTask?]) =>
          task ? [] : [{ arn: name, reason: 'MISSING' }],
        ),
      };
    },

    ListTasks(input) {
      const wanted = input.desiredStatus ?? 'RUNNING';
      const matching = [...tasks.values()].filter(
        (task) =>
          task.desiredStatus === wanted && (input.startedBy === undefined || task.startedBy === input.startedBy),
      );
      return { taskArns: matching.map(({ taskArn }) => taskArn) };
    },

    StopTask(input) {
      const task = find(input.task);
      if (task === undefined) throw invalid('The referenced task was not found.');
      if (task.desiredStatus === 'RUNNING') {
        change(task.taskArn, { desiredStatus: 'STOPPED', stopCode: 'UserInitiated', stoppedReason: input.reason });
        containers.get(task.taskArn)?.kill();
      }
      return { task: tasks.get(task.taskArn) };
    },
  };

  // Clients keep connections and do not retry: an idle one must not be closed.
  const server = createServer({ keepAliveTimeout: 0 }, async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString();
    const answer = (status: number, value: object) =>
      response.writeHead(status, { 'content-type': 'application/x-amz-json-1.1' }).end(JSON.stringify(value));
    try {
      const [, action = ''] =
        /^AmazonEC2ContainerServiceV20141113\.(\w+)$/.exec(String(request.headers['x-amz-target'])) ?? [];
      if (request.headers['content-type'] !== 'application/x-amz-json-1.1') throw invalid('not awsJson1.1');
      if (!(action in actions)) throw new EcsError('UnknownOperationException', `no ${action} here`);
      requests.push(action);
      const input = JSON.parse(body);
      if (input.cluster !== cluster && input.cluster !== arn(`cluster/${cluster}`)) {
        throw new EcsError('ClusterNotFoundException', 'Cluster not found.');
      }
      const value = actions[action]!(input);
      if (action === 'RunTask' && answersToLose > 0) {
        answersToLose -= 1;
        return void response.destroy();
      }
      answer(200, value);
    } catch (error) {
      const { type = 'ServerException', message } = error as EcsError;
      answer(type === 'ServerException' ? 500 : 400, { __type: type, message });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get tasks() {
      return [...tasks.values()];
    },
    requests,
    refuse: (count, how) => void refusals.push(...Array(count).fill(how)),
    stopRefusing: () => void refusals.splice(0),
    loseAnswers(count) {
      answersToLose += count;
    },
    kill: (taskArn) => containers.get(taskArn)?.kill(),
    async settled() {
      for (let before: unknown; before !== delivered; ) {
        before = delivered;
        await delivered;
      }
    },
    async close() {
      for (const container of containers.values()) container.kill();
      await Promise.allSettled(lives);
      server.closeAllConnections();
      server.close();
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

/** The checks of AWS's API reference. */
function checkRunTask(input: Input, taskDefinitions: readonly string[]): void {
  if (!taskDefinitions.includes(input.taskDefinition)) throw invalid('TaskDefinition not found.');
  if (input.launchType !== 'FARGATE') throw invalid('launchType: nothing but FARGATE here');
  const { count = 1, clientToken = '', startedBy = '', overrides = {}, tags = [] } = input;
  if (!(count >= 1 && count <= 10)) throw invalid('count: 1 to 10');
  if (clientToken.length > 64) throw invalid('clientToken: at most 64 characters');
  if (!/^[A-Za-z0-9/_-]{0,128}$/.test(startedBy)) throw invalid('startedBy: at most 128 of A-Z a-z 0-9 / _ -');
  if (JSON.stringify(overrides).length > 8192) throw invalid('Container Overrides length must be at most 8192');
  if (tags.length > 50) throw invalid('tags: at most 50');
  const { subnets = [], securityGroups = [], assignPublicIp } = input.networkConfiguration?.awsvpcConfiguration ?? {};
  if (subnets.length < 1 || subnets.length > 16) throw invalid('subnets: 1 to 16 of them, with awsvpc');
  if (securityGroups.length > 5) throw invalid('securityGroups: at most 5');
  if (!['ENABLED', 'DISABLED', undefined].includes(assignPublicIp))
    throw invalid('assignPublicIp: ENABLED or DISABLED');
}
