/** Wakes the platform at the minutes of a schedule's cron expression. */
export interface Timer {
  readonly workspaceId: string;
  /** A UUID. */
  readonly scheduleId: string;
  /** Five fields, checked. */
  readonly cronExpression: string;
  readonly timezone: string;
}

/**
 * Wakes the platform when a schedule is due. The table alone says which minutes are due: a timer that fires twice, late or
 * in vain does no harm, and a sweep finds schedules that no timer fired for.
 */
export interface Timers {
  /** Safe to repeat. */
  set(timer: Timer): Promise<void>;
  /** Safe to repeat, and for a timer that was never set. */
  remove(timer: Timer): Promise<void>;
  /**
   * Sets the timers of `wanted` that are missing and removes all others. `wanted` may be slightly out of date, so `current`
   * is asked for a schedule's timer before one is removed.
   */
  reconcile(
    wanted: () => AsyncIterable<Timer>,
    current: (scheduleId: string) => Promise<Timer | undefined>,
  ): Promise<{ readonly set: number; readonly removed: number }>;
}
