import { setImmediate as endOfTurn } from 'node:timers/promises';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { fireDue } from '#core/automation/schedules/runs/fire.ts';
import { type DueSchedule, firstDue, listDue } from '#core/automation/schedules/store.ts';
import { planOf } from '#core/base/plans.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Timers } from '#core/ports/timers.ts';

/** Callbacks for the progress of a scheduled run. Each is called at most once, before the run ends. */
export interface RunSteps {
  /** The minute is claimed: the schedule is no longer due. */
  readonly onTaken: () => void;
  /** The run has reached its agent or is queued for a slot. */
  readonly onStarted: () => void;
}

interface ClockTimersProps {
  readonly clock: Clock;
  /** Yields the schedules that are due now. */
  readonly due: () => AsyncIterable<DueSchedule>;
  /** Returns the time (epoch milliseconds) at which the next schedule is due. */
  readonly nextDue: () => Promise<number | undefined>;
  /** Returns a number that grows with each write that may change what is due when. */
  readonly changes: () => number;
  /**
   * Runs the due minute of a schedule. Resolves when its run has ended, or at once if nothing is due. Must not throw.
   */
  readonly fire: (schedule: DueSchedule, steps: RunSteps) => Promise<void>;
  /** Returns the maximum number of concurrent calls in the workspace's plan. */
  readonly concurrencyOf: (workspaceId: string) => Promise<number>;
}

const TICK_MS = 1000;
/** Pause after a slow poll of the table, as a multiple of its duration, so that polling does not starve other work. */
const PAUSE_AFTER_LOOK = 9;
/** Upper bound of the pause, for polls that seem to last hours because the clock was set or the machine slept. */
const MAX_PAUSE_MS = 10_000;
/** Number of due schedules read in one turn of the event loop. */
const READ_AT_ONCE = 200;
/**
 * Number of runs started in one turn of the event loop. They share its commits, and requests are answered between
 * turns. A higher number makes requests wait, a lower one causes more commits.
 */
const BEGUN_AT_ONCE = 20;
/** Number of runs of one workspace that start together: they share the write that counts them. */
const BEGUN_TOGETHER = 10;
/**
 * Maximum number of started runs that have not reached their agent. Later ones wait, so that the first reach their
 * models soon.
 */
const MAX_STARTING = 100;
/** Reading pauses while this many schedules are ready to start: they should start while the table still caches them. */
const MAX_READY = 100;
/**
 * Maximum number of due schedules held in memory (about 2 KB each). Schedules beyond it are read again when they start.
 */
const MAX_KEPT = 10_000;

/**
 * Due schedules of a workspace. `execute` makes a run wait while its workspace has reached its concurrency limit across
 * all hosts. Runs that would certainly wait are not started at all, because each would poll once a second.
 */
interface Queue {
  readonly waiting: DueSchedule[];
  active: number;
  maxActive: number;
}

/** Returns how many runs of a queue may start now. */
const readyIn = ({ waiting, active, maxActive }: Queue): number =>
  Math.max(0, Math.min(waiting.length, maxActive - active));
const mayBegin = (queue: Queue): boolean => readyIn(queue) > 0;

/**
 * {@link Timers} on one machine. The table's index by next run is the heap of timers, polled once a second while something
 * is due, and otherwise after a write or at the next due time. There is no other state: a crash loses nothing, a restart
 * loads nothing, and neither setting the clock nor suspending the machine breaks anything.
 */
export class ClockTimers implements Timers {
  readonly #props: ClockTimersProps;
  readonly #stop = new AbortController();
  /** Schedules that are queued, or that have fired and are still due. */
  readonly #taken = new Set<string>();
  readonly #workspaces = new Map<string, Queue>();
  /** Queues whose next schedule may start, in round-robin order. */
  readonly #ready = new Set<Queue>();
  #waiting = 0;
  #starting = 0;
  #isBeginning = false;
  /** Set after a poll that found nothing due. */
  #idle: { readonly until: number; readonly changes: number } | undefined;
  /** Set while the reader waits for queued schedules to start. */
  #room: PromiseWithResolvers<void> | undefined;
  #loop: Promise<void> = Promise.resolve();

  constructor(props: ClockTimersProps) {
    this.#props = props;
  }

  async set(): Promise<void> {}
  async remove(): Promise<void> {}

  async reconcile(): Promise<{ set: number; removed: number }> {
    return { set: 0, removed: 0 };
  }

  /** Starts polling. `onError` gets errors of reading the table; the next second tries again. */
  start(onError: (error: unknown) => void): void {
    this.#loop = this.#run(onError);
  }

  /** Starts no further runs. Runs in progress continue. */
  async stop(): Promise<void> {
    this.#stop.abort();
    for (const { waiting } of this.#workspaces.values()) waiting.length = 0;
    this.#ready.clear();
    this.#room?.resolve();
    await this.#loop;
  }

  async #run(onError: (error: unknown) => void): Promise<void> {
    const { clock } = this.#props;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const startedAt = clock.now();
      const waited = await this.#tick().catch(onError);
      const now = clock.now();
      const pause = Math.min(Math.max(0, now - startedAt - (waited ?? 0)) * PAUSE_AFTER_LOOK, MAX_PAUSE_MS);
      // Polls at full seconds, so that a run starts exactly at its minute.
      const next = Math.ceil((now + Math.max(pause, 1)) / TICK_MS) * TICK_MS;
      await clock.sleep(next - now, signal).catch(() => {});
    }
  }

  /**
   * Reads the due schedules. The first ones start while the others are still being read. Returns how many milliseconds
   * it waited for starts.
   */
  async #tick(): Promise<number> {
    for (const [workspaceId, queue] of this.#workspaces) {
      if (queue.active === 0 && queue.waiting.length === 0) this.#workspaces.delete(workspaceId);
    }
    const { clock, changes, nextDue } = this.#props;
    const before = changes();
    if (this.#idle?.changes === before && clock.now() < this.#idle.until) return 0;
    this.#idle = undefined;
    const asked = new Set<string>();
    let read = 0;
    let waited = 0;
    for await (const schedule of this.#props.due()) {
      if (++read % READ_AT_ONCE === 0) {
        await endOfTurn();
        waited += await this.#untilRoom();
      }
      if (this.#stop.signal.aborted) return waited;
      const { id, workspaceId } = schedule;
      const queue = this.#workspaces.get(workspaceId) ?? { waiting: [], active: 0, maxActive: 0 };
      this.#workspaces.set(workspaceId, queue);
      if (!asked.has(workspaceId)) {
        asked.add(workspaceId);
        queue.maxActive = await this.#props.concurrencyOf(workspaceId);
      }
      if (!this.#taken.has(id)) {
        this.#taken.add(id);
        queue.waiting.push(this.#waiting++ < MAX_KEPT ? schedule : { id, workspaceId });
      }
      this.#mayBegin(queue);
    }
    if (read === 0) this.#idle = { until: (await nextDue()) ?? Number.POSITIVE_INFINITY, changes: before };
    return waited;
  }

  /** Waits while too many schedules are ready to start. Returns how long, in milliseconds. */
  async #untilRoom(): Promise<number> {
    if (this.#hasRoom()) return 0;
    const { clock } = this.#props;
    const startedAt = clock.now();
    this.#room = Promise.withResolvers();
    await this.#room.promise;
    return clock.now() - startedAt;
  }

  #hasRoom(): boolean {
    let ready = 0;
    for (const queue of this.#ready) {
      ready += readyIn(queue);
      if (ready >= MAX_READY) return false;
    }
    return true;
  }

  #mayBegin(queue: Queue): void {
    if (!mayBegin(queue)) return;
    this.#ready.add(queue);
    void this.#begin();
  }

  /**
   * Starts schedules round-robin over the workspaces, a few in each turn of the event loop, as long as more may start.
   */
  async #begin(): Promise<void> {
    if (this.#isBeginning) return;
    this.#isBeginning = true;
    for (let isMore = true; isMore; ) {
      await endOfTurn();
      isMore = this.#beginSome();
      if (this.#room && this.#hasRoom()) this.#room.resolve();
    }
    this.#isBeginning = false;
  }

  /** Returns whether the next turn of the event loop may have more to start. */
  #beginSome(): boolean {
    for (let left = BEGUN_AT_ONCE; left > 0; ) {
      const [queue] = this.#ready;
      const room = MAX_STARTING - this.#starting;
      if (queue === undefined || room <= 0) return false;
      this.#ready.delete(queue);
      const together = queue.waiting.splice(0, Math.min(BEGUN_TOGETHER, left, room, readyIn(queue)));
      this.#waiting -= together.length;
      left -= together.length;
      for (const schedule of together) void this.#fire(queue, schedule);
      if (mayBegin(queue)) this.#ready.add(queue);
    }
    return true;
  }

  async #fire(queue: Queue, schedule: DueSchedule): Promise<void> {
    queue.active++;
    this.#starting++;
    let isStarting = true;
    const onTaken = (): void => void this.#taken.delete(schedule.id);
    const onStarted = (): void => {
      if (!isStarting) return;
      isStarting = false;
      this.#starting--;
      void this.#begin();
    };
    await this.#props.fire(schedule, { onTaken, onStarted });
    onTaken();
    onStarted();
    queue.active--;
    this.#mayBegin(queue);
  }
}

/** Returns the timers of a platform with these ports. `changes` counts the writes of the main table. */
export const clockTimers = (clock: Clock, deps: () => Deps, changes: () => number): ClockTimers =>
  new ClockTimers({
    clock,
    due: () => listDue(deps(), clock.now()),
    nextDue: () => firstDue(deps()),
    changes,
    fire({ id, workspaceId, item }, steps) {
      const { background, log } = deps();
      const work = fireDue(deps(), { workspaceId, scheduleId: id, item, ...steps });
      // The sweep finishes runs that started and did not end.
      const failed = (error: unknown) => log.error('schedule failed', { schedule_id: id, error: String(error) });
      return background(work.catch(failed));
    },
    async concurrencyOf(workspaceId) {
      const workspace = await findWorkspace(deps(), workspaceId);
      return workspace ? planOf(deps(), workspace).concurrent_calls : 1;
    },
  });
