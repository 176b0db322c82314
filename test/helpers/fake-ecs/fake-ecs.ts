import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type FakeGateways, startGateways } from './gateways.ts';
import { checkInput } from './model.ts';
import { type DeploymentStateEvent, FakeServices } from './services.ts';
import { startTaskDefinitions, type TaskDefinitions } from './task-definitions.ts';
import { type FakeTask, FakeTasks, type RunTaskFault, type StartContainer, type TaskStateEvent } from './tasks.ts';
import { type Actions, arnOf, EcsError, invalid, nameIn } from './wire.ts';

export type FakeEvent = TaskStateEvent | DeploymentStateEvent;

export interface FakeEcsOptions {
  /** Names of the existing clusters. */
  readonly clusters: readonly string[];
  /** ARNs of revisions that exist without registration. */
  readonly taskDefinitions: readonly string[];
  readonly start: StartContainer;
  /** Called once per event, in order; may throw. */
  onEvent?(event: FakeEvent): unknown;
  /** Resolves when no request to this address is in flight; the address gets no new ones. @default - at once */
  drained?(address: string): Promise<unknown>;
  /** Milliseconds that a gateway needs to add or remove a route. @default 0 */
  readonly routeMs?: number;
  /** Whether the Region has gateways. @default true */
  readonly hasGateways?: boolean;
}

export interface FakeEcs {
  readonly url: string;
  /** All tasks ever started, in their current state, newest last. */
  readonly tasks: readonly FakeTask[];
  readonly services: FakeServices;
  readonly gateways: FakeGateways;
  readonly definitions: TaskDefinitions;
  /** Names of the requested actions, in order. */
  readonly requests: readonly string[];
  /** Called before an action is executed; may throw or wait. */
  onRequest: ((action: string) => unknown) | undefined;
  /** Refuses the next `count` RunTask calls, or answers them with a placement failure. */
  refuse(count: number, how: RunTaskFault): void;
  /** Lets RunTask start tasks again. */
  stopRefusing(): void;
  /** Executes the next `count` calls of an action but loses the answers. @default RunTask */
  loseAnswers(count: number, action?: string): void;
  /** Simulates the death of a task's host. */
  kill(taskArn: string): void;
  /** Reclaims a Fargate Spot task: SIGTERM at once, SIGKILL after `graceMs`. @default 120,000, as on AWS */
  reclaim(taskArn: string, graceMs?: number): void;
  /** Availability of Fargate Spot. @default there */
  spot: FakeTasks['spot'];
  /** Resolves when all pending events are delivered. */
  settled(): Promise<void>;
  close(): Promise<void>;
}

/** Actions that need no cluster. */
const WITHOUT_CLUSTER = /DescribeClusters|TaskDefinition|Gateway|TagResource|UntagResource|TagsForResource/;

/**
 * Fakes ECS on the SDK's wire protocol, as far as the platform needs it: tasks start real programs and emit an event
 * for each state, services keep tasks running, and gateways give services an address. The fake refuses requests that
 * AWS refuses, and members that the SDK's own model of an action does not have.
 */
export async function startFakeEcs(options: FakeEcsOptions): Promise<FakeEcs> {
  const definitions = startTaskDefinitions();
  const gateways = startGateways(options.routeMs ?? 0, options.hasGateways);
  const tasks: FakeTasks = new FakeTasks({
    start: options.start,
    taskDefinitions: options.taskDefinitions,
    definition: (name) => definitions.find(name),
    onEvent: options.onEvent,
    onChange: (task) => services.taskChanged(task),
  });
  const services: FakeServices = new FakeServices({
    ...{ tasks, definitions, gateways },
    onEvent: options.onEvent,
    drained: options.drained ?? (async () => {}),
  });
  const requests: string[] = [];
  const answersToLose: string[] = [];
  const actions: Actions = { ...tasks.actions, ...definitions.actions, ...gateways.actions, ...services.actions };
  const clusterArns = options.clusters.map((name) => arnOf(`cluster/${name}`));

  // Idle connections must stay open, because clients reuse them and do not retry.
  const server = createServer({ keepAliveTimeout: 0 }, async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString();
    const answer = (status: number, value: object) =>
      response.writeHead(status, { 'content-type': 'application/x-amz-json-1.1' }).end(wireJson(value));
    try {
      const [, action = ''] =
        /^AmazonEC2ContainerServiceV20141113\.(\w+)$/.exec(String(request.headers['x-amz-target'])) ?? [];
      if (request.headers['content-type'] !== 'application/x-amz-json-1.1') throw invalid('not awsJson1.1');
      if (!(action in actions)) throw new EcsError('UnknownOperationException', `no ${action} here`);
      requests.push(action);
      const input = JSON.parse(body);
      checkInput(action, input);
      const cluster = input.cluster === undefined ? undefined : arnOf(`cluster/${nameIn(input.cluster)}`);
      if ((cluster !== undefined || !WITHOUT_CLUSTER.test(action)) && !clusterArns.includes(cluster!)) {
        throw new EcsError('ClusterNotFoundException', 'Cluster not found.');
      }
      await ecs.onRequest?.(action);
      const value = actions[action]!(cluster === undefined ? input : { ...input, cluster });
      const lost = answersToLose.indexOf(action);
      if (lost >= 0) {
        answersToLose.splice(lost, 1);
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
  const ecs: FakeEcs = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get tasks() {
      return tasks.all;
    },
    ...{ services, gateways, definitions, requests },
    onRequest: undefined,
    refuse: (count, how) => void tasks.refusals.push(...Array(count).fill(how)),
    stopRefusing: () => void tasks.refusals.splice(0),
    loseAnswers: (count, action = 'RunTask') => void answersToLose.push(...Array(count).fill(action)),
    kill: (taskArn) => tasks.kill(taskArn),
    reclaim: (taskArn, graceMs = 120_000) => tasks.reclaim(taskArn, graceMs),
    get spot() {
      return tasks.spot;
    },
    set spot(spot) {
      tasks.spot = spot;
    },
    settled: () => tasks.settled(),
    async close() {
      services.close();
      gateways.close();
      await tasks.close();
      server.closeAllConnections();
      server.close();
    },
  };
  return ecs;
}

/** On the wire, times are seconds. */
const wireJson = (value: object): string =>
  JSON.stringify(value, function (this: Record<string, unknown>, name, member) {
    const own = this[name];
    return own instanceof Date ? own.getTime() / 1000 : member;
  });
