import { setImmediate as endOfTurn } from 'node:timers/promises';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { fireDue } from '#core/automation/schedules/runs/fire.ts';
import { type DueSchedule, listDue } from '#core/automation/schedules/store.ts';
import { planOf } from '#core/base/plans.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Timers } from '#core/ports/timers.ts';

/** What a run of a schedule has come to. Each is called at most once; both before the run's end. */
export interface RunSteps {
  /** The minute is taken: the schedule is not due any more. */
  readonly onTaken: () => void;
  /** The run has come to its agent, or waits for room. */
  readonly onStarted: () => void;
}

interface ClockTimersProps {
  readonly clock: Clock;
  /** Schedules with a minute that is due by now. */
  readonly due: () => AsyncIterable<DueSchedule>;
  /** Runs what is due of a schedule. Resolves when its run has ended, or none is due. Must not throw. */
  readonly fire: (schedule: DueSchedule, steps: RunSteps) => Promise<void>;
  /** How many calls the workspace's plan allows at once. */
  readonly concurrencyOf: (workspaceId: string) => Promise<number>;
}

const TICK_MS = 1000;
/** Pause after a slow look at the table, as a multiple of its length, so that looking does not hold up everything else. */
const PAUSE_AFTER_LOOK = 9;
/** Bounds the pause when the clock was set or the machine slept during a look, which then seems to have lasted hours. */
const MAX_PAUSE_MS = 10_000;
/** Due schedules read in one turn of the event loop. */
const READ_AT_ONCE = 200;
/**
 * Runs that begin in one turn of the event loop. They share its commits, and requests are answered between turns: more
 * would make requests wait, fewer would commit more often.
 */
const BEGUN_AT_ONCE = 20;
/** Runs of one workspace that begin together at its turn: they share the write that counts them. */
const BEGUN_TOGETHER = 10;
/** Runs that have begun and have not come to their agent yet. Further ones wait, so the first reach their models soon. */
const MAX_STARTING = 100;
/** While so many may begin, no further ones are read: what was read is then still remembered by the table. */
const MAX_READY = 100;
/** Due schedules that are kept as they were read, of about 2 KB each. Beyond this, a schedule is read again at its turn. */
const MAX_KEPT = 10_000;

/**
 * Due schedules of a workspace. A run waits in `execute` while its workspace has too many calls under way, on every host.
 * Runs that would certainly wait are not begun at all: each would ask again once a second.
 */
interface Queue {
  readonly waiting: DueSchedule[];
  active: number;
  maxActive: number;
}

/** How many of a queue may begin now. */
const readyIn = ({ waiting, active, maxActive }: Queue): number =>
  Math.max(0, Math.min(waiting.length, maxActive - active));
const mayBegin = (queue: Queue): boolean => readyIn(queue) > 0;

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
  /** Queues whose next schedule may begin, in the order of their turns. */
  readonly #ready = new Set<Queue>();
  #waiting = 0;
  #starting = 0;
  #isBeginning = false;
  /** Of the reader, while it waits for others to begin. */
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

  /** `onError` gets errors of reading the table. The next second tries again. */
  start(onError: (error: unknown) => void): void {
    this.#loop = this.#run(onError);
  }

  /** Begins no further runs. Runs that have begun go on. */
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
      // On the second, so that a run begins right with its minute.
      const next = Math.ceil((now + Math.max(pause, 1)) / TICK_MS) * TICK_MS;
      await clock.sleep(next - now, signal).catch(() => {});
    }
  }

  /**
   * Reads what is due. The first schedules begin while the others are still read. Returns how many milliseconds it waited for
   * them.
   */
  async #tick(): Promise<number> {
    for (const [workspaceId, queue] of this.#workspaces) {
      if (queue.active === 0 && queue.waiting.length === 0) this.#workspaces.delete(workspaceId);
    }
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
    return waited;
  }

  /** Waits while many may begin. Returns for how many milliseconds. */
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

  /** Begins schedules of each workspace in turn, a few in each turn of the event loop, as long as more may start. */
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

  /** Returns whether there may be more to begin in the next turn of the event loop. */
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

/** The timers of a platform on these ports. */
export const clockTimers = (clock: Clock, deps: () => Deps): ClockTimers =>
  new ClockTimers({
    clock,
    due: () => listDue(deps(), clock.now()),
    fire({ id, workspaceId, item }, steps) {
      const { background, log } = deps();
      const work = fireDue(deps(), { workspaceId, scheduleId: id, item, ...steps });
      // The sweep finds runs that began and did not end.
      const failed = (error: unknown) => log.error('schedule failed', { schedule_id: id, error: String(error) });
      return background(work.catch(failed));
    },
    async concurrencyOf(workspaceId) {
      const workspace = await findWorkspace(deps(), workspaceId);
      return workspace ? planOf(deps(), workspace).concurrent_calls : 1;
    },
  });
