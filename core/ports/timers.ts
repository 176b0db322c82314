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
   * Sets those of `wanted` that are missing and removes all others. One that was set lately may be taken for another, when
   * `wanted` does not know it yet: the next time it is set again.
   */
  reconcile(wanted: () => AsyncIterable<Timer>): Promise<{ readonly set: number; readonly removed: number }>;
}
