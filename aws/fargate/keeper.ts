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
import { type PoolDeps, type PoolLimits, SandboxPool, type Slot } from './pool.ts';

/** Where tasks run, and how many. */
export interface PoolSettings extends PoolLimits {
  readonly cluster: string;
  /** ARN of one revision. */
  readonly taskDefinition: string;
  readonly subnets: readonly string[];
  readonly securityGroup: string;
  /** Whether tasks get public addresses, which a network without NAT needs. The security group lets nothing in. */
  readonly hasPublicIp: boolean;
  /** How many idle tasks are always kept. */
  readonly idle: number;
}

/** How long past its time a claimed or warm task may run before it is stopped. */
const CLAIM_GRACE_MS = 60_000;
/** A slot without a task's name is searched for after this long: RunTask, retries included, has answered by then. */
const UNNAMED_AFTER_MS = 60_000;
/** A task that has not started after this long never will. */
const START_TIMEOUT_MS = 10 * 60_000;
/** Limit of DescribeTasks. */
const DESCRIBE_BATCH = 100;

/**
 * Keeps the pool of sandboxes: as many idle tasks as are wanted, and no task without a use. Each task is started for one
 * slot of the table. It names the slot in `startedBy`, so an event leads to its slot without a search. The slot's id is
 * the client token, so a request that is sent twice starts one task.
 *
 * Events may come twice, late or never: each minute the tasks are compared with the table.
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
  async onTask({ taskArn, startedBy, lastStatus, desiredStatus, attachments }: Task): Promise<void> {
    const [, number, id] = /^pool\/(\d+)\/([0-9a-f]{24})$/.exec(startedBy ?? '') ?? [];
    if (taskArn === undefined || id === undefined) return;
    const slot = { number: Number(number), id };
    if (lastStatus === 'STOPPED') return this.#pool.release(slot);
    if (desiredStatus === 'STOPPED') return this.#pool.end(slot);
    const address = attachments
      ?.flatMap(({ details = [] }) => details)
      .find(({ name }) => name === 'privateIPv4Address')?.value;
    if (lastStatus === 'RUNNING' && address !== undefined) await this.#pool.ready(slot, taskArn, address);
  }

  /** Compares the table with the existing tasks, and stops tasks without a use. */
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
        if (this.#isUseless(slot)) await this.#stop(slot, task.taskArn!);
      } else if (slot.taskArn !== undefined || slot.createdAt + UNNAMED_AFTER_MS < clock.now()) {
        // ECS forgets a task an hour after its end.
        await this.#pool.release(slot);
      }
    }
  }

  /** Starts missing tasks and stops surplus idle ones. */
  async refill(): Promise<void> {
    const { idle, taskDefinition } = this.#settings;
    const { slots, waits, demand } = await this.#pool.read();
    const current = slots.filter((slot) => slot.taskDefinition === taskDefinition);
    const idleSlots = current.filter(({ state }) => state === 'idle');
    const starting = current.filter(({ state }) => state === 'starting');
    // A start takes a minute, so the demand of one minute is started ahead of the next.
    const wanted = Math.max(idle, demand) + waits.length;
    this.#deps.log.info('pool', {
      idle: idleSlots.length,
      starting: starting.length,
      claimed: slots.filter(({ state }) => state === 'claimed').length,
      warm: slots.filter(({ state }) => state === 'warm').length,
      waiting: waits.length,
      wanted,
    });
    const free = this.#pool.free({ slots });
    const warm = slots.filter(({ state }) => state === 'warm').sort((a, b) => a.until! - b.until!);
    // Calls wait, and neither a task nor a place for one is or becomes free: warm tasks make room, the soonest to end first.
    const ending = slots.filter(({ state }) => state === 'ended').length;
    const short = Math.max(0, waits.length - idleSlots.length - starting.length - free.length - ending);
    const outdated = slots.filter(
      ({ state, taskDefinition: of }) => (state === 'idle' || state === 'warm') && of !== taskDefinition,
    );
    for (const slot of new Set([...idleSlots.slice(wanted), ...warm.slice(0, short), ...outdated])) {
      if (await this.#pool.retire(slot)) await this.#stop(slot, slot.taskArn!);
    }
    const missing = wanted - idleSlots.length - starting.length;
    for (const number of free.slice(0, Math.max(0, missing))) {
      if (!(await this.#start(number))) return;
    }
  }

  /** Returns false when ECS starts no further task now. */
  async #start(number: number): Promise<boolean> {
    const { cluster, taskDefinition, subnets, securityGroup, hasPublicIp } = this.#settings;
    const slot = await this.#pool.reserve(number, taskDefinition);
    if (slot === undefined) return true;
    try {
      const { tasks = [], failures = [] } = await this.#ecs.send(
        new RunTaskCommand({
          cluster,
          taskDefinition,
          launchType: 'FARGATE',
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
        return true;
      }
      this.#deps.log.error('task not started', { reason: failures[0]?.reason ?? 'no reason given' });
    } catch (error) {
      this.#deps.log.error('task not started', { reason: String(error) });
      // The task may have started: `reconcile` finds out.
      if (!wasRefused(error)) return false;
    }
    await this.#pool.release(slot);
    return false;
  }

  #isUseless({ state, until, createdAt, address }: Slot): boolean {
    const now = this.#deps.clock.now();
    // A warm one ends by itself.
    if (state === 'claimed' || state === 'warm') return until! + CLAIM_GRACE_MS < now;
    if (state === 'starting') return address === undefined && createdAt + START_TIMEOUT_MS < now;
    return state === 'ended';
  }

  async #stop({ number, id }: Slot, task: string): Promise<void> {
    await this.#pool.end({ number, id });
    const { cluster } = this.#settings;
    await this.#ecs.send(new StopTaskCommand({ cluster, task, reason: 'no longer of use' })).catch((error: unknown) => {
      // The next minute tries again.
      this.#deps.log.warn('task not stopped', { reason: String(error) });
    });
  }

  /** The task of a slot whose RunTask was not answered. */
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

/** ECS refused, so there is no task. After any other error the task may exist. */
function wasRefused(error: unknown): boolean {
  const { $fault, name } = error as { $fault?: string; name?: string };
  return $fault === 'client' || name === 'ThrottlingException';
}
