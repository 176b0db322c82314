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
import {
  isOfKind,
  type PoolDeps,
  type PoolLimits,
  type PoolPart,
  SandboxPool,
  type Slot,
  type SlotState,
  type Snapshot,
  shareOf,
} from './pool.ts';

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
/** Parts of the pool that are compared or refilled at once. */
const PARTS_AT_ONCE = 8;

/** Tasks of a type of capacity that a part of the pool has and wants, and the number of calls that wait for one. */
interface Kind {
  readonly isInterruptible?: boolean;
  readonly wanted: number;
  readonly waiting: number;
  readonly idle: readonly Slot[];
  readonly starting: number;
}

interface Plan extends Pick<Snapshot, 'slots' | 'lacksSpot'> {
  readonly part: PoolPart;
  readonly kinds: readonly Kind[];
}

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

  /**
   * Records a task's new state, from the `detail` of an event or from DescribeTasks. Returns the part of the pool in which
   * it is.
   */
  async onTask(task: Task): Promise<number | undefined> {
    const [, number, id] = /^pool\/(\d+)\/([0-9a-f]{24})$/.exec(task.startedBy ?? '') ?? [];
    if (id === undefined) return undefined;
    const slot = { number: Number(number), id };
    const part = this.#pool.of(slot);
    await this.#record(part, slot, task);
    return part.number;
  }

  async #record(part: PoolPart, slot: Pick<Slot, 'number' | 'id'>, task: Task): Promise<void> {
    const { taskArn, lastStatus, desiredStatus, attachments } = task;
    if (taskArn === undefined) return;
    if (isOnSpot(task) && lastStatus === 'STOPPED' && task.stopCode === 'TaskFailedToStart') await part.noteNoSpot();
    if (lastStatus === 'STOPPED') return part.release(slot);
    if (desiredStatus === 'STOPPED') return part.end(slot);
    const address = attachments
      ?.flatMap(({ details = [] }) => details)
      .find(({ name }) => name === 'privateIPv4Address')?.value;
    if (lastStatus === 'RUNNING' && address !== undefined) await part.ready(slot, taskArn, address);
  }

  /** Compares the table with the existing tasks, and stops unused tasks. */
  async reconcile(): Promise<void> {
    const former = await this.#pool.former();
    for (const parts of batchesOf([...this.#pool.parts, ...former], PARTS_AT_ONCE)) {
      await Promise.all(parts.map((part) => this.#reconcile(part)));
    }
    for (const part of former) await this.#carryOut(this.#planOf(part, await part.read()));
  }

  async #reconcile(part: PoolPart): Promise<void> {
    const { clock } = this.#deps;
    const { slots } = await part.read();
    const known = slots.filter(({ taskArn }) => taskArn !== undefined);
    const tasks = new Map<string, Task>();
    for (const batch of batchesOf(known, DESCRIBE_BATCH)) {
      const arns = batch.map(({ taskArn }) => taskArn!);
      for (const task of await this.#describe(arns)) tasks.set(task.taskArn!, task);
    }
    for (const slot of slots) {
      const task = slot.taskArn === undefined ? await this.#findUnnamed(part, slot) : tasks.get(slot.taskArn);
      if (task !== undefined) {
        // Most tasks run as their slots say.
        if (slot.state === 'starting' || isOver(task)) await this.#record(part, slot, task);
        if (!this.#isUseless(slot)) continue;
        if (slot.state === 'starting' && isOnSpot(task)) await part.noteNoSpot();
        await this.#stop(part, slot, task.taskArn!);
      } else if (slot.taskArn !== undefined || slot.createdAt + UNNAMED_AFTER_MS < clock.now()) {
        // ECS forgets a task an hour after its end.
        await part.release(slot);
      }
    }
  }

  /**
   * Starts missing tasks and stops surplus idle ones, of both types: on regular and on interruptible capacity.
   *
   * @param only Number of the part in which something happened. @default - all parts
   */
  async refill(only?: number): Promise<void> {
    const { parts } = this.#pool;
    const chosen = parts.length > 1 && only !== undefined ? parts.filter(({ number }) => number === only) : parts;
    const plans = await Promise.all(chosen.map(async (part) => this.#planOf(part, await part.read())));
    if (chosen === parts) this.#logTotals(plans);
    for (const some of batchesOf(plans, PARTS_AT_ONCE)) await Promise.all(some.map((plan) => this.#carryOut(plan)));
  }

  /** Returns what a part has and lacks, by type of capacity. */
  #planOf(part: PoolPart, { slots, waits, demand, lacksSpot }: Snapshot): Plan {
    const { idle: idleOfAll, taskDefinition } = this.#settings;
    const { length } = this.#pool.parts;
    const idle = part.number < length ? shareOf(idleOfAll, part.number, length) : 0;
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
    return { part, slots, kinds, lacksSpot };
  }

  #logTotals(plans: readonly Plan[]): void {
    const kinds = plans.flatMap((plan) => plan.kinds);
    const sum = (of: (kind: Kind) => number) => kinds.reduce((total, kind) => total + of(kind), 0);
    const slots = plans.flatMap((plan) => plan.slots);
    const count = (state: SlotState) => slots.filter((slot) => slot.state === state).length;
    this.#deps.log.info('pool', {
      idle: sum((kind) => kind.idle.length),
      starting: sum(({ starting }) => starting),
      claimed: count('claimed'),
      warm: count('warm'),
      waiting: sum(({ waiting }) => waiting),
      wanted: sum(({ wanted }) => wanted),
    });
  }

  async #carryOut({ part, slots, kinds, lacksSpot }: Plan): Promise<void> {
    const { taskDefinition } = this.#settings;
    const sum = (of: (kind: Kind) => number) => kinds.reduce((total, kind) => total + of(kind), 0);
    const free = part.free({ slots });
    const ended = slots.filter(({ state }) => state === 'ended').length;
    const warm = slots.filter(({ state }) => state === 'warm').sort((a, b) => a.until! - b.until!);
    // If calls wait while no task and no slot is or becomes free, idle tasks of the other type are stopped, then warm
    // tasks, the soonest to expire first.
    const lacking = sum((kind) => Math.max(0, kind.waiting - kind.idle.length - kind.starting));
    const short = Math.max(0, lacking - free.length - ended);
    const room = [...kinds.flatMap((kind) => kind.idle.slice(kind.waiting)), ...warm].slice(0, short);
    const surplus = kinds.flatMap((kind) => kind.idle.slice(kind.wanted));
    const outdated = slots.filter(
      ({ state, taskDefinition: of }) => (state === 'idle' || state === 'warm') && of !== taskDefinition,
    );
    for (const slot of new Set([...surplus, ...room, ...outdated])) {
      if (await part.retire(slot)) await this.#stop(part, slot, slot.taskArn!);
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
      let outcome = await this.#start(part, number, isInterruptible, isInterruptible && hasSpot);
      if (outcome === 'refused' && isInterruptible && hasSpot) {
        hasSpot = false;
        await part.noteNoSpot();
        outcome = await this.#start(part, number, isInterruptible, false);
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
  async #start(
    part: PoolPart,
    number: number,
    isInterruptible: boolean,
    isSpot: boolean,
  ): Promise<'started' | 'refused' | 'unknown'> {
    const { cluster, taskDefinition, subnets, securityGroup, hasPublicIp } = this.#settings;
    const slot = await part.reserve(number, taskDefinition, isInterruptible);
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
        await part.started(slot, tasks[0].taskArn);
        return 'started';
      }
      this.#noteRefusal(failures[0]?.reason ?? 'no reason given', isSpot);
    } catch (error) {
      this.#noteRefusal(String(error), isSpot);
      // The task may have started; `reconcile` checks.
      if (!wasRefused(error)) return 'unknown';
      if (isThrottle(error)) outcome = 'unknown';
    }
    await part.release(slot);
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

  async #stop(part: PoolPart, { number, id }: Slot, task: string): Promise<void> {
    await part.end({ number, id });
    const { cluster } = this.#settings;
    await this.#ecs.send(new StopTaskCommand({ cluster, task, reason: 'no longer of use' })).catch((error: unknown) => {
      // Retried in the next minute.
      this.#deps.log.warn('task not stopped', { reason: String(error) });
    });
  }

  /** Returns the task of a slot whose RunTask got no response. */
  async #findUnnamed(part: PoolPart, { number, id, createdAt }: Slot): Promise<Task | undefined> {
    if (createdAt + UNNAMED_AFTER_MS > this.#deps.clock.now()) return undefined;
    const { cluster } = this.#settings;
    const { taskArns = [] } = await this.#ecs.send(
      new ListTasksCommand({ cluster, startedBy: `pool/${number}/${id}` }),
    );
    const [task] = taskArns.length > 0 ? await this.#describe(taskArns) : [];
    if (task !== undefined) await part.started({ number, id }, task.taskArn!);
    return task;
  }

  async #describe(tasks: string[]): Promise<Task[]> {
    const answer = await this.#ecs.send(new DescribeTasksCommand({ cluster: this.#settings.cluster, tasks }));
    return answer.tasks ?? [];
  }
}

const isOver = ({ lastStatus, desiredStatus }: Task): boolean =>
  lastStatus === 'STOPPED' || desiredStatus === 'STOPPED';
const isOnSpot = ({ capacityProviderName }: Task): boolean => capacityProviderName === SPOT;

/** Whether ECS refused, so that no task exists. After any other error the task may exist. */
const wasRefused = (error: unknown): boolean => (error as { $fault?: string }).$fault === 'client' || isThrottle(error);
