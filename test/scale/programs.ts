import {
  DescribeTasksCommand,
  type ECSClient,
  ListTasksCommand,
  RunTaskCommand,
  StopTaskCommand,
  type Task,
} from '@aws-sdk/client-ecs';
import { PoolKeeper } from '#aws/fargate/keeper.ts';
import { SandboxPool } from '#aws/fargate/pool.ts';
import { launchInTime } from '#aws/microvm/launches.ts';
import { isPlatformError } from '#core/base/errors.ts';
import { noPlaceError, queueDeadline } from '#core/execution/fair-queue.ts';
import { randomHex } from '#core/ports/ids.ts';
import { dynamoProps, type LoadProps, lambdaOf, type Outcome } from './loads.ts';
import { LevelMeter, RateMeter, TokenBucket } from './meters.ts';
import { createWorld, type World } from './world.ts';

export interface Programs {
  /** Runs per second, evenly distributed. */
  readonly rate: number;
  /** Additional runs at the start. */
  readonly burst: number;
  readonly seconds: number;
  /** Duration of a program, and timeout of its call, in milliseconds. */
  readonly runMs: number;
  readonly deadlineMs: number;
}

class Refusal extends Error {
  readonly $fault = 'client';

  constructor(name: string) {
    super('Rate exceeded');
    this.name = name;
  }
}

/** Plays runs of programs; `run` takes each from its sandbox to its end. */
async function play(
  world: World,
  { rate, burst, seconds, deadlineMs }: Programs,
  run: (deadline: number) => Promise<void>,
): Promise<{ ended: Record<string, number>; waits: number[] }> {
  const { clock } = world;
  const ended: Record<string, number> = {};
  const waits: number[] = [];
  const one = async (): Promise<void> => {
    const begun = clock.now();
    const what = await run(begun + deadlineMs).then(
      () => 'ran',
      (error: unknown) => {
        if (isPlatformError(error)) return `refused, ${error.code}`;
        return `failed, ${(error as Error).name}`;
      },
    );
    if (what === 'ran') waits.push(clock.now() - begun);
    ended[what] = (ended[what] ?? 0) + 1;
  };
  const all = Array.from({ length: burst }, one);
  for (let n = 0; n < rate * seconds; n++) {
    all.push(one());
    await clock.sleep(1000 / rate);
  }
  await Promise.all(all);
  return { ended, waits };
}

const middleOf = (waits: readonly number[]): number => [...waits].sort((a, b) => a - b)[waits.length >> 1] ?? 0;

/** Simulates programs in MicroVMs, whose launch rate is limited per account. */
export async function programsInMicrovms(props: LoadProps, programs: Programs): Promise<Outcome> {
  const world = createWorld({ ...dynamoProps(props), plan: 'enterprise', modelMs: 0 });
  const { clock, deps } = world;
  const bucket = new TokenBucket(clock, { rate: props.limits.microvmRate });
  const launches = new RateMeter(clock);
  const asked = new RateMeter(clock);
  const running = new LevelMeter();
  const { ended, waits } = await clock.until(
    play(world, programs, async (deadline) => {
      const launch = {
        clock,
        counters: deps.counters,
        launchesPerSecond: props.limits.microvmRate,
        patience: queueDeadline(clock.now(), deadline),
      };
      await launchInTime(launch, async () => {
        asked.add();
        if (props.throttles && !bucket.take()) throw new Refusal('ThrottlingException');
        launches.add();
      });
      running.add(1);
      await clock.sleep(programs.runMs);
      running.add(-1);
    }),
  );
  return {
    ended: { ...ended, 'requests for a VM': asked.total, 'median, ms': Math.round(middleOf(waits)) },
    world,
    demand: { microvmRate: programs.rate, microvms: running.peak },
  };
}

/** Simulates programs on Fargate: the pool's own code, with an ECS that starts tasks at its maximum rate. */
export async function programsOnFargate(props: LoadProps, programs: Programs): Promise<Outcome> {
  const { limits, throttles } = props;
  const world = createWorld({ ...dynamoProps(props), plan: 'enterprise', modelMs: 0 });
  const { clock, deps } = world;
  const lambda = lambdaOf(world, props);
  const settings = {
    cluster: 'sandboxes',
    taskDefinition: 'arn:aws:ecs:eu-west-1:111122223333:task-definition/sandbox:1',
    subnets: ['subnet-1'],
    securityGroup: 'sg-1',
    hasPublicIp: true,
    idle: 0,
    max: throttles ? limits.poolMax : POOL_WITHOUT_LIMIT,
    startMs: limits.taskStartMs,
  };
  const ecs = new EcsModel(props, world, async (task) => {
    const handle = async () => {
      await keeper.refill(await keeper.onTask(task));
    };
    await lambda.invoke('pool-keeper', handle).catch(() => {});
  });
  const keeper = new PoolKeeper(ecs as unknown as ECSClient, deps, settings);
  const pool = new SandboxPool(deps, settings);
  let isOver = false;
  const keep = async (): Promise<void> => {
    while (!isOver) {
      await clock.sleep(60_000);
      const handle = async () => {
        await keeper.reconcile();
        await keeper.refill();
      };
      await lambda.invoke('pool-keeper', handle).catch(() => {});
    }
  };
  const waiting = new LevelMeter();
  const load = async () => {
    const keeping = keep();
    const result = await play(world, programs, async (deadline) => {
      const claim = {
        id: randomHex(deps.ids, 16),
        owner: 'w',
        until: deadline,
        patience: queueDeadline(clock.now(), deadline),
        since: clock.now(),
      };
      waiting.add(1);
      try {
        for (let asks = 1; ; asks++) {
          const ask = () => pool.claim({ ...claim, isRepeated: asks > 1 });
          const answer = await lambda.invoke('sandbox-dispatch', ask);
          if ('slot' in answer) {
            waiting.add(-1);
            await clock.sleep(programs.runMs);
            await pool.end(answer.slot);
            ecs.exit(answer.slot.taskArn!);
            return;
          }
          if (asks === 1) void lambda.invoke('pool-keeper', () => keeper.refill(answer.part)).catch(() => {});
          // As `aws/fargate/sandbox.ts`.
          if (clock.now() + answer.readyInMs >= claim.patience) throw noPlaceError(answer.readyInMs);
          await clock.sleep(answer.askInMs);
        }
      } catch (error) {
        waiting.add(-1);
        throw error;
      }
    });
    isOver = true;
    await keeping;
    return result;
  };
  const { ended, waits } = await clock.until(load());
  return {
    ended: { ...ended, 'tasks started': ecs.started.total, 'median, ms': Math.round(middleOf(waits)) },
    world,
    demand: {
      poolMax: ecs.tasksAtOnce.peak,
      taskRate: ecs.started.peak,
      fargateVcpus: ecs.tasksAtOnce.peak * limits.taskVcpus,
      concurrency: lambda.all.peak,
      waiting: waiting.peak,
    },
  };
}

/** Pool size above what any load here starts. */
const POOL_WITHOUT_LIMIT = 5_000;

/** Models RunTask and task events at the rates of ECS and Fargate. Tasks do nothing. */
class EcsModel {
  readonly #props: LoadProps;
  readonly #world: World;
  readonly #onTask: (task: Task) => Promise<void>;
  readonly #tasks = new Map<string, Task>();
  readonly #requests: TokenBucket;
  readonly #launches: TokenBucket;
  readonly started: RateMeter;
  readonly tasksAtOnce = new LevelMeter();
  #number = 0;

  constructor(props: LoadProps, world: World, onTask: (task: Task) => Promise<void>) {
    this.#props = props;
    this.#world = world;
    this.#onTask = onTask;
    const { limits } = props;
    this.#requests = new TokenBucket(world.clock, { rate: limits.runTaskRate });
    this.#launches = new TokenBucket(world.clock, { rate: limits.taskRate, burst: limits.taskBurst });
    this.started = new RateMeter(world.clock);
  }

  async send(command: unknown): Promise<object> {
    await this.#world.clock.sleep(this.#props.limits.tableMs);
    if (command instanceof RunTaskCommand) return this.#run(command.input.startedBy!);
    if (command instanceof StopTaskCommand) this.exit(command.input.task!);
    if (command instanceof DescribeTasksCommand) {
      return { tasks: command.input.tasks!.flatMap((arn) => this.#tasks.get(arn) ?? []) };
    }
    if (command instanceof ListTasksCommand) {
      const own = [...this.#tasks.values()].filter(({ startedBy }) => startedBy === command.input.startedBy);
      return { taskArns: own.map(({ taskArn }) => taskArn) };
    }
    return {};
  }

  /** Ends the task. */
  exit(arn: string): void {
    const task = this.#tasks.get(arn);
    if (task === undefined || task.lastStatus === 'STOPPED') return;
    this.tasksAtOnce.add(-1);
    this.#change(task, { lastStatus: 'STOPPED', desiredStatus: 'STOPPED' });
  }

  #run(startedBy: string): object {
    const { limits, throttles } = this.#props;
    if (throttles && !(this.#requests.take() && this.#launches.take())) throw new Refusal('ThrottlingException');
    if (throttles && (this.tasksAtOnce.level + 1) * limits.taskVcpus > limits.fargateVcpus) {
      throw new Refusal('ClientException');
    }
    const taskArn = `arn:aws:ecs:eu-west-1:111122223333:task/sandboxes/${this.#number++}`;
    const task: Task = { taskArn, startedBy, lastStatus: 'PROVISIONING', desiredStatus: 'RUNNING' };
    this.#tasks.set(taskArn, task);
    this.started.add();
    this.tasksAtOnce.add(1);
    this.#world.clock.after(limits.taskStartMs, () => {
      if (this.#tasks.get(taskArn)?.lastStatus !== 'PROVISIONING') return;
      const details = [{ name: 'privateIPv4Address', value: '10.0.0.1' }];
      this.#change(task, { lastStatus: 'RUNNING', attachments: [{ details }] });
    });
    return { tasks: [task] };
  }

  #change({ taskArn }: Task, changes: Partial<Task>): void {
    const task = { ...this.#tasks.get(taskArn!)!, ...changes };
    this.#tasks.set(taskArn!, task);
    void this.#onTask(task);
  }
}
