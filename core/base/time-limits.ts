/**
 * The times that several parts of the platform must agree on. Each follows from the one before it:
 * a call answers, its record is written, the function that ran it ends.
 */

/** Longest timeout of an agent or a plan. */
export const MAX_TIMEOUT_SECONDS = 300;

/** Calls answer by then: API Gateway cuts a stream after 300 s without a byte. */
export const MAX_CALL_MS = 295_000;

/** Time that a host has past a run's deadline to write the run's record. After it, the run counts as lost. */
export const RUN_GRACE_MS = 30_000;

/** Time that a host has past a run's deadline to settle its payment: the record must be there first. */
export const PAYMENT_GRACE_MS = 60_000;

/** A function that runs calls is ended by then: the longest call, and the writing of its record. */
export const CALL_FUNCTION_SECONDS = 305;

/** A scheduled minute that is missed by more than this does not run any more. */
export const SCHEDULE_WINDOW_MS = 5 * 60_000;
