/** Wakes the platform at the minutes that match the cron expression of a schedule. */
export interface Timer {
  readonly workspaceId: string;
  /** A UUID. */
  readonly scheduleId: string;
  /** Five fields, already validated. */
  readonly cronExpression: string;
  readonly timezone: string;
}

/**
 * Wakes the platform when a schedule is due. The table decides which minutes are due: a timer that fires twice, late or
 * in vain does no harm, and a sweep finds schedules whose timer did not fire.
 */
export interface Timers {
  /** Sets a timer; idempotent. */
  set(timer: Timer): Promise<void>;
  /** Removes a timer; idempotent, and a no-op if it was never set. */
  remove(timer: Timer): Promise<void>;
  /**
   * Sets missing timers of `wanted` and removes all others. `wanted` may be slightly stale, so `current` is asked for
   * the timer of a schedule before one is removed.
   */
  reconcile(
    wanted: () => AsyncIterable<Timer>,
    current: (scheduleId: string) => Promise<Timer | undefined>,
  ): Promise<{ readonly set: number; readonly removed: number }>;
}
