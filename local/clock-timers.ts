import type { Deps } from '#core/deps.ts';
import { planOf } from '#core/limits/plans.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Timers } from '#core/ports/timers.ts';
import { fireDue } from '#core/schedules/fire.ts';
import { listDue } from '#core/schedules/store.ts';
import { findWorkspace } from '#core/workspaces/store.ts';

interface DueSchedule {
  readonly id: string;
  readonly workspace_id: string;
}

interface ClockTimersProps {
  readonly clock: Clock;
  /** Schedules with a minute that is due by now. */
  readonly due: () => AsyncIterable<DueSchedule>;
  /** Deals with what is due of a schedule: calls `onTaken` when that is no longer due, ends with its run. Must not throw. */
  readonly fire: (schedule: DueSchedule, onTaken: () => void) => Promise<void>;
  /** Runs that a workspace may have under way: more would only wait for each other. */
  readonly concurrencyOf: (workspaceId: string) => Promise<number>;
}

const TICK_MS = 1000;

/**
 * {@link Timers} on one machine. The table's index by the next run is the heap of timers, and is looked at once a second:
 * nothing is kept here that a crash could lose, that a restart had to load, or that a clock that is set, or stops while
 * the machine sleeps, could make wrong.
 */
export class ClockTimers implements Timers {
  readonly #props: ClockTimersProps;
  readonly #stop = new AbortController();
  /** Schedules that wait for their turn, or are due still though somebody deals with them. */
  readonly #taken = new Set<string>();
  readonly #workspaces = new Map<string, { waiting: DueSchedule[]; active: number }>();
  #loop: Promise<void> = Promise.resolve();

  constructor(props: ClockTimersProps) {
    this.#props = props;
  }

  async set(): Promise<void> {}
  async remove(): Promise<void> {}

  async reconcile(): Promise<{ set: number; removed: number }> {
    return { set: 0, removed: 0 };
  }

  /** `onError` gets what reading the table throws: the next second tries again. */
  start(onError: (error: unknown) => void): void {
    this.#loop = this.#run(onError);
  }

  /** Begins nothing any more. Runs that began go on. */
  async stop(): Promise<void> {
    this.#stop.abort();
    for (const { waiting } of this.#workspaces.values()) waiting.length = 0;
    await this.#loop;
  }

  async #run(onError: (error: unknown) => void): Promise<void> {
    const { clock } = this.#props;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      await this.#tick().catch(onError);
      // On the second, so that a run begins right with its minute.
      await clock.sleep(TICK_MS - (clock.now() % TICK_MS), signal).catch(() => {});
    }
  }

  async #tick(): Promise<void> {
    for await (const schedule of this.#props.due()) {
      if (this.#stop.signal.aborted) return;
      if (this.#taken.has(schedule.id)) continue;
      this.#taken.add(schedule.id);
      const { workspace_id: workspaceId } = schedule;
      const queue = this.#workspaces.get(workspaceId) ?? { waiting: [], active: 0 };
      this.#workspaces.set(workspaceId, queue);
      queue.waiting.push(schedule);
    }
    for (const workspaceId of this.#workspaces.keys()) await this.#goOn(workspaceId);
  }

  /** Begins as many as the workspace may have. */
  async #goOn(workspaceId: string): Promise<void> {
    const queue = this.#workspaces.get(workspaceId);
    if (queue === undefined) return;
    const most = await this.#props.concurrencyOf(workspaceId);
    while (queue.active < most && queue.waiting.length > 0) void this.#fire(workspaceId, queue.waiting.shift()!);
    if (queue.active === 0 && queue.waiting.length === 0) this.#workspaces.delete(workspaceId);
  }

  async #fire(workspaceId: string, schedule: DueSchedule): Promise<void> {
    const queue = this.#workspaces.get(workspaceId)!;
    queue.active++;
    const onTaken = () => void this.#taken.delete(schedule.id);
    await this.#props.fire(schedule, onTaken);
    onTaken();
    queue.active--;
    await this.#goOn(workspaceId);
  }
}

/** The timers of a platform on these ports. */
export const clockTimers = (clock: Clock, deps: () => Deps): ClockTimers =>
  new ClockTimers({
    clock,
    due: () => listDue(deps(), clock.now()),
    fire({ id, workspace_id }, onTaken) {
      const { background, log } = deps();
      const work = fireDue(deps(), { workspaceId: workspace_id, scheduleId: id, onTaken });
      // What began and did not end is found by the sweep.
      const failed = (error: unknown) => log.error('schedule failed', { schedule_id: id, error: String(error) });
      return background(work.catch(failed));
    },
    async concurrencyOf(workspaceId) {
      const workspace = await findWorkspace(deps(), workspaceId);
      return workspace ? planOf(deps(), workspace).concurrent_calls : 1;
    },
  });
