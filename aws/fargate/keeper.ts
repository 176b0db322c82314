import {
  DescribeTasksCommand,
  type ECSClient,
  ListTasksCommand,
  RunTaskCommand,
  StopTaskCommand,
  type Task,
} from '@aws-sdk/client-ecs';
import { batchesOf } from '#core/base/batches.ts';
import type { Log } from '#core/ports/deps.ts';
import { isThrottle } from '../tables/throttles.ts';
import { isOfKind, type PoolDeps, type PoolLimits, SandboxPool, type Slot, type SlotState } from './pool.ts';

/** Location and number of the tasks. */
export interface PoolSettings extends PoolLimits {
  readonly cluster: string;
  /** ARN of one revision. */
  readonly taskDefinition: string;
  readonly subnets: readonly string[];
  readonly securityGroup: string;
  /**
   * Whether tasks get public addresses, which a network without NAT needs. The security group blocks all inbound
   * traffic.
   */
  readonly hasPublicIp: boolean;
  /** Minimum number of idle tasks. */
  readonly idle: number;
}

/** How long past its time a claimed or warm task may run before it is stopped. */
const CLAIM_GRACE_MS = 60_000;
/** The task of an unnamed slot is searched for after this time, when RunTask must have completed, retries included. */
const UNNAMED_AFTER_MS = 60_000;
/** A task that has not started after this time never will. */
const START_TIMEOUT_MS = 10 * 60_000;
/** Scarce spot capacity may delay a task: after this time another one is started on regular capacity. */
const SPOT_START_TIMEOUT_MS = 3 * 60_000;
/** Spot capacity: docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-capacity-providers.html. */
const SPOT = 'FARGATE_SPOT';
/** Maximum batch size of DescribeTasks. */
const DESCRIBE_BATCH = 100;

/**
 * Maintains the sandbox pool: the target number of idle tasks, and no unused task. Each task is started for one slot of
 * the table. Its `startedBy` identifies the slot, so an event leads to its slot without a search. The slot's id is the
 * client token, so a repeated request starts only one task.
 *
 * Events may arrive twice, late or never: each minute the tasks are compared with the table.
 */
export class PoolKeeper {
  readonly #ecs: ECSClient;
  readonly #pool: SandboxPool;
  readonly #deps: PoolDeps & { readonly log: Log };
  readonly #settings: PoolSettings;

  constructor(ecs: ECSClient, deps: PoolDeps & { readonly log: Log }, settings: PoolSettings) {
    this.#ecs = ecs;
    this.#deps = deps;
    this.#settings = settings;
    this.#pool = new SandboxPool(deps, settings);
  }

  /** Records a task's new state, from the `detail` of an event or from DescribeTasks. */
  async onTask(task: Task): Promise<void> {
    const { taskArn, startedBy, lastStatus, desiredStatus, attachments } = task;
    const [, number, id] = /^pool\/(\d+)\/([0-9a-f]{24})$/.exec(startedBy ?? '') ?? [];
    if (taskArn === undefined || id === undefined) return;
    const slot = { number: Number(number), id };
    if (isOnSpot(task) && lastStatus === 'STOPPED' && task.stopCode === 'TaskFailedToStart') {
      await this.#pool.noteNoSpot();
    }
    if (lastStatus === 'STOPPED') return this.#pool.release(slot);
    if (desiredStatus === 'STOPPED') return this.#pool.end(slot);
    const address = attachments
      ?.flatMap(({ details = [] }) => details)
      .find(({ name }) => name === 'privateIPv4Address')?.value;
    if (lastStatus === 'RUNNING' && address !== undefined) await this.#pool.ready(slot, taskArn, address);
  }

  /** Compares the table with the existing tasks, and stops unused tasks. */
  async reconcile(): Promise<void> {
    const { clock } = this.#deps;
    const { slots } = await this.#pool.read();
    const known = slots.filter(({ taskArn }) => taskArn !== undefined);
    const tasks = new Map<string, Task>();
    for (const batch of batchesOf(known, DESCRIBE_BATCH)) {
      const arns = batch.map(({ taskArn }) => taskArn!);
      for (const task of await this.#describe(arns)) tasks.set(task.taskArn!, task);
    }
    for (const slot of slots) {
      const task = slot.taskArn === undefined ? await this.#findUnnamed(slot) : tasks.get(slot.taskArn);
      if (task !== undefined) {
        await this.onTask(task);
        if (!this.#isUseless(slot)) continue;
        if (slot.state === 'starting' && isOnSpot(task)) await this.#pool.noteNoSpot();
        await this.#stop(slot, task.taskArn!);
      } else if (slot.taskArn !== undefined || slot.createdAt + UNNAMED_AFTER_MS < clock.now()) {
        // ECS forgets a task an hour after its end.
        await this.#pool.release(slot);
      }
    }
  }

  /** Starts missing tasks and stops surplus idle ones, of both types: on regular and on interruptible capacity. */
  async refill(): Promise<void> {
    const { idle, taskDefinition } = this.#settings;
    const { slots, waits, demand, lacksSpot } = await this.#pool.read();
    const current = slots.filter((slot) => slot.taskDefinition === taskDefinition);
    // A start takes a minute, so the tasks for a minute's demand are started one minute ahead.
    const kinds = [
      { kind: {}, wanted: Math.max(idle, demand.lasting) },
      { kind: { isInterruptible: true }, wanted: demand.interruptible },
    ].map(({ kind, wanted }) => {
      const waiting = waits.filter((wait) => isOfKind(wait, kind)).length;
      const has = (state: SlotState) => current.filter((slot) => slot.state === state && isOfKind(slot, kind));
      return { ...kind, wanted: wanted + waiting, waiting, idle: has('idle'), starting: has('starting').length };
    });
    const count = (state: SlotState) => slots.filter((slot) => slot.state === state).length;
    const sum = (of: (kind: (typeof kinds)[number]) => number) => kinds.reduce((total, kind) => total + of(kind), 0);
    this.#deps.log.info('pool', {
      idle: sum((kind) => kind.idle.length),
      starting: sum(({ starting }) => starting),
      claimed: count('claimed'),
      warm: count('warm'),
      waiting: waits.length,
      wanted: sum(({ wanted }) => wanted),
    });
    const free = this.#pool.free({ slots });
    const warm = slots.filter(({ state }) => state === 'warm').sort((a, b) => a.until! - b.until!);
    // If calls wait while no task and no slot is or becomes free, idle tasks of the other type are stopped, then warm
    // tasks, the soonest to expire first.
    const lacking = sum((kind) => Math.max(0, kind.waiting - kind.idle.length - kind.starting));
    const short = Math.max(0, lacking - free.length - count('ended'));
    const room = [...kinds.flatMap((kind) => kind.idle.slice(kind.waiting)), ...warm].slice(0, short);
    const surplus = kinds.flatMap((kind) => kind.idle.slice(kind.wanted));
    const outdated = slots.filter(
      ({ state, taskDefinition: of }) => (state === 'idle' || state === 'warm') && of !== taskDefinition,
    );
    for (const slot of new Set([...surplus, ...room, ...outdated])) {
      if (await this.#pool.retire(slot)) await this.#stop(slot, slot.taskArn!);
    }
    // Tasks that calls wait for come first, regular capacity before spot: people may be waiting for it.
    const missing = kinds.map((kind) => kind.wanted - kind.idle.length - kind.starting);
    const awaited = kinds.map((kind, index) => Math.min(missing[index]!, kind.waiting));
    const order = [awaited, missing.map((count, index) => count - Math.max(0, awaited[index]!))].flatMap((counts) =>
      counts.flatMap((count, index) => Array<boolean>(Math.max(0, count)).fill(kinds[index]!.isInterruptible === true)),
    );
    let hasSpot = !lacksSpot;
    for (const [index, isInterruptible] of order.entries()) {
      const number = free[index];
      if (number === undefined) return;
      let outcome = await this.#start(number, isInterruptible, isInterruptible && hasSpot);
      if (outcome === 'refused' && isInterruptible && hasSpot) {
        hasSpot = false;
        await this.#pool.noteNoSpot();
        outcome = await this.#start(number, isInterruptible, false);
      }
      if (outcome !== 'started') return;
    }
  }

  /**
   * Returns `refused` if ECS starts no task of this type now, `unknown` if it is busy or the task may have started
   * nevertheless.
   *
   * @param isSpot Whether to use spot capacity, which AWS reclaims two minutes after a SIGTERM.
   */
  async #start(number: number, isInterruptible: boolean, isSpot: boolean): Promise<'started' | 'refused' | 'unknown'> {
    const { cluster, taskDefinition, subnets, securityGroup, hasPublicIp } = this.#settings;
    const slot = await this.#pool.reserve(number, taskDefinition, isInterruptible);
    if (slot === undefined) return 'started';
    let outcome: 'refused' | 'unknown' = 'refused';
    try {
      const { tasks = [], failures = [] } = await this.#ecs.send(
        new RunTaskCommand({
          cluster,
          taskDefinition,
          ...(isSpot
            ? { capacityProviderStrategy: [{ capacityProvider: SPOT, weight: 1 }] }
            : { launchType: 'FARGATE' }),
          count: 1,
          clientToken: slot.id,
          startedBy: `pool/${number}/${slot.id}`,
          propagateTags: 'TASK_DEFINITION',
          networkConfiguration: {
            awsvpcConfiguration: {
              subnets: [...subnets],
              securityGroups: [securityGroup],
              assignPublicIp: hasPublicIp ? 'ENABLED' : 'DISABLED',
            },
          },
        }),
      );
      if (tasks[0]?.taskArn !== undefined) {
        await this.#pool.started(slot, tasks[0].taskArn);
        return 'started';
      }
      this.#noteRefusal(failures[0]?.reason ?? 'no reason given', isSpot);
    } catch (error) {
      this.#noteRefusal(String(error), isSpot);
      // The task may have started; `reconcile` checks.
      if (!wasRefused(error)) return 'unknown';
      if (isThrottle(error)) outcome = 'unknown';
    }
    await this.#pool.release(slot);
    return outcome;
  }

  /** Missing spot capacity needs no action, so no alarm counts it. */
  #noteRefusal(reason: string, isSpot: boolean): void {
    if (isSpot) this.#deps.log.warn('no task on spot capacity', { reason });
    else this.#deps.log.error('task not started', { reason });
  }

  #isUseless({ state, until, createdAt, address, isInterruptible }: Slot): boolean {
    const now = this.#deps.clock.now();
    // A warm task ends by itself.
    if (state === 'claimed' || state === 'warm') return until! + CLAIM_GRACE_MS < now;
    const startTimeoutMs = isInterruptible ? SPOT_START_TIMEOUT_MS : START_TIMEOUT_MS;
    if (state === 'starting') return address === undefined && createdAt + startTimeoutMs < now;
    return state === 'ended';
  }

  async #stop({ number, id }: Slot, task: string): Promise<void> {
    await this.#pool.end({ number, id });
    const { cluster } = this.#settings;
    await this.#ecs.send(new StopTaskCommand({ cluster, task, reason: 'no longer of use' })).catch((error: unknown) => {
      // Retried in the next minute.
      this.#deps.log.warn('task not stopped', { reason: String(error) });
    });
  }

  /** Returns the task of a slot whose RunTask got no response. */
  async #findUnnamed({ number, id, createdAt }: Slot): Promise<Task | undefined> {
    if (createdAt + UNNAMED_AFTER_MS > this.#deps.clock.now()) return undefined;
    const { cluster } = this.#settings;
    const { taskArns = [] } = await this.#ecs.send(
      new ListTasksCommand({ cluster, startedBy: `pool/${number}/${id}` }),
    );
    const [task] = taskArns.length > 0 ? await this.#describe(taskArns) : [];
    if (task !== undefined) await this.#pool.started({ number, id }, task.taskArn!);
    return task;
  }

  async #describe(tasks: string[]): Promise<Task[]> {
    const answer = await this.#ecs.send(new DescribeTasksCommand({ cluster: this.#settings.cluster, tasks }));
    return answer.tasks ?? [];
  }
}

const isOnSpot = ({ capacityProviderName }: Task): boolean => capacityProviderName === SPOT;

/** Whether ECS refused, so that no task exists. After any other error the task may exist. */
const wasRefused = (error: unknown): boolean => (error as { $fault?: string }).$fault === 'client' || isThrottle(error);
