import { setImmediate as endOfTurn } from 'node:timers/promises';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { fireDue } from '#core/automation/schedules/fire.ts';
import { listDue } from '#core/automation/schedules/store.ts';
import { planOf } from '#core/base/plans.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Timers } from '#core/ports/timers.ts';

interface DueSchedule {
  readonly id: string;
  readonly workspaceId: string;
}

interface ClockTimersProps {
  readonly clock: Clock;
  /** Schedules with a minute that is due by now. */
  readonly due: () => AsyncIterable<DueSchedule>;
  /**
   * Runs what is due of a schedule. Calls `onTaken` when the schedule is no longer due; resolves when its run has ended.
   * Must not throw.
   */
  readonly fire: (schedule: DueSchedule, onTaken: () => void) => Promise<void>;
  /** How many calls the workspace's plan allows at once. */
  readonly concurrencyOf: (workspaceId: string) => Promise<number>;
}

const TICK_MS = 1000;
/** Pause after a slow look at the table, as a multiple of its length, so that looking does not hold up everything else. */
const PAUSE_AFTER_LOOK = 9;
/** Bounds the pause when the clock was set or the machine slept during a look, which then seems to have lasted hours. */
const MAX_PAUSE_MS = 10_000;
/** Schedules read in one turn of the event loop: requests are answered between turns. */
const READ_AT_ONCE = 500;
/**
 * The first due schedules begin together, step by step: they share commits, and all ask their models before the first
 * answer arrives. Requests wait for up to half a second meanwhile. Beyond this number, a few begin in each turn.
 */
const BEGUN_TOGETHER = 1000;
const BEGUN_AT_ONCE = 10;

/**
 * Due schedules of a workspace. A run waits in `execute` while its workspace has too many calls under way, on every host.
 * Runs that would certainly wait are not begun at all: each would ask again once a second.
 */
interface Queue {
  readonly waiting: DueSchedule[];
  active: number;
  maxActive: number;
}

/**
 * {@link Timers} on one machine. The table's index by the next run serves as the heap of timers and is read once a
 * second. No other state exists, so a crash loses nothing, a restart loads nothing, and a clock that is set, or that stops
 * while the machine sleeps, makes nothing wrong.
 */
export class ClockTimers implements Timers {
  readonly #props: ClockTimersProps;
  readonly #stop = new AbortController();
  /** Schedules in a queue, or fired and still due. */
  readonly #taken = new Set<string>();
  readonly #workspaces = new Map<string, Queue>();
  #isBeginning = false;
  #loop: Promise<void> = Promise.resolve();

  constructor(props: ClockTimersProps) {
    this.#props = props;
  }

  async set(): Promise<void> {}
  async remove(): Promise<void> {}

  async reconcile(): Promise<{ set: number; removed: number }> {
    return { set: 0, removed: 0 };
  }

  /** `onError` gets errors of reading the table. The next second tries again. */
  start(onError: (error: unknown) => void): void {
    this.#loop = this.#run(onError);
  }

  /** Begins no further runs. Runs that have begun go on. */
  async stop(): Promise<void> {
    this.#stop.abort();
    for (const { waiting } of this.#workspaces.values()) waiting.length = 0;
    await this.#loop;
  }

  async #run(onError: (error: unknown) => void): Promise<void> {
    const { clock } = this.#props;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const startedAt = clock.now();
      await this.#tick().catch(onError);
      const now = clock.now();
      const pause = Math.min(Math.max(0, now - startedAt) * PAUSE_AFTER_LOOK, MAX_PAUSE_MS);
      // On the second, so that a run begins right with its minute.
      const next = Math.ceil((now + Math.max(pause, 1)) / TICK_MS) * TICK_MS;
      await clock.sleep(next - now, signal).catch(() => {});
    }
  }

  async #tick(): Promise<void> {
    let read = 0;
    for await (const schedule of this.#props.due()) {
      if (++read % READ_AT_ONCE === 0) await endOfTurn();
      if (this.#stop.signal.aborted) return;
      if (this.#taken.has(schedule.id)) continue;
      this.#taken.add(schedule.id);
      const { workspaceId } = schedule;
      const queue = this.#workspaces.get(workspaceId) ?? { waiting: [], active: 0, maxActive: 0 };
      this.#workspaces.set(workspaceId, queue);
      queue.waiting.push(schedule);
    }
    for (const [workspaceId, queue] of this.#workspaces) {
      if (queue.active === 0 && queue.waiting.length === 0) this.#workspaces.delete(workspaceId);
      else queue.maxActive = await this.#props.concurrencyOf(workspaceId);
    }
    void this.#begin();
  }

  /** Begins schedules of each workspace in turn, as many as may run. */
  async #begin(): Promise<void> {
    if (this.#isBeginning) return;
    this.#isBeginning = true;
    let begun = 0;
    for (let before = -1; before !== begun; ) {
      before = begun;
      for (const queue of this.#workspaces.values()) {
        if (queue.waiting.length === 0 || queue.active >= queue.maxActive) continue;
        void this.#fire(queue, queue.waiting.shift()!);
        if (++begun >= BEGUN_TOGETHER && begun % BEGUN_AT_ONCE === 0) await endOfTurn();
      }
    }
    this.#isBeginning = false;
  }

  async #fire(queue: Queue, schedule: DueSchedule): Promise<void> {
    queue.active++;
    const onTaken = () => void this.#taken.delete(schedule.id);
    await this.#props.fire(schedule, onTaken);
    onTaken();
    queue.active--;
    void this.#begin();
  }
}

/** The timers of a platform on these ports. */
export const clockTimers = (clock: Clock, deps: () => Deps): ClockTimers =>
  new ClockTimers({
    clock,
    due: () => listDue(deps(), clock.now()),
    fire({ id, workspaceId }, onTaken) {
      const { background, log } = deps();
      const work = fireDue(deps(), { workspaceId, scheduleId: id, onTaken });
      // The sweep finds runs that began and did not end.
      const failed = (error: unknown) => log.error('schedule failed', { schedule_id: id, error: String(error) });
      return background(work.catch(failed));
    },
    async concurrencyOf(workspaceId) {
      const workspace = await findWorkspace(deps(), workspaceId);
      return workspace ? planOf(deps(), workspace).concurrent_calls : 1;
    },
  });
