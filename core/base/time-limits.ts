/**
 * Time limits that several parts of the platform must agree on, in order: a call answers, its record is written, and
 * the function that ran it ends.
 */

/** Longest timeout of an agent or a plan. */
export const MAX_TIMEOUT_SECONDS = 300;

/** Maximum duration of a call: API Gateway cuts a stream after 300 s without a byte. */
export const MAX_CALL_MS = 295_000;

/**
 * Time after which a call of a durable run is answered with the run's address. The run continues. That is well before
 * {@link MAX_CALL_MS}, so that no connection is cut.
 */
export const HELD_CALL_MS = 285_000;

/** Longest time that a durable run of any plan is worked on. */
export const MAX_ACTIVE_SECONDS = 24 * 3600;

/** Longest time that a durable run of any plan waits for people, time or events, in total: 30 days. */
export const MAX_WAIT_SECONDS = 30 * 24 * 3600;

/** How long before it begins a run may be asked for: 30 days. */
export const MAX_DELAY_SECONDS = 30 * 24 * 3600;

/** Longest time that a run waits for a place in a queue: a day. */
export const MAX_QUEUED_MS = 24 * 3600 * 1000;

/** Time after a run's deadline in which its host may write its record. After it, the run counts as lost. */
export const RUN_GRACE_MS = 30_000;

/** Time after a run's deadline in which its host may settle its payment, which needs the record. */
export const PAYMENT_GRACE_MS = 60_000;

/** Timeout of functions that run calls: the longest call and the writing of its record. */
export const CALL_FUNCTION_SECONDS = 305;

/** A scheduled minute that is missed by more than this is skipped. */
export const SCHEDULE_WINDOW_MS = 5 * 60_000;
