/** What is to happen at the minutes that a cron expression names. */
export interface Timer {
  readonly workspaceId: string;
  /** A UUID. */
  readonly scheduleId: string;
  /** Five fields, checked. */
  readonly cronExpression: string;
  readonly timezone: string;
}

/**
 * What wakes the platform when a schedule is due. Only a help: which minutes are due stands in the table, a timer that
 * wakes twice, late or in vain does no harm, and schedules that no timer woke are found by a sweep.
 */
export interface Timers {
  /** Safe to repeat. */
  set(timer: Timer): Promise<void>;
  /** Safe to repeat, and for what was never set. */
  remove(timer: Timer): Promise<void>;
  /**
   * Sets those of `wanted` that are missing and removes all others. `wanted` may be a moment old: `current` is asked what a
   * schedule has now before anything of it is removed.
   */
  reconcile(
    wanted: () => AsyncIterable<Timer>,
    current: (scheduleId: string) => Promise<Timer | undefined>,
  ): Promise<{ readonly set: number; readonly removed: number }>;
}
