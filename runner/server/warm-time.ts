const IDLE_MS = 30_000;
/** Fargate bills tasks by the second with a minimum of one minute: aws.amazon.com/fargate/pricing. */
const PAID_MS = 60_000;
const MAX_AGE_MS = 15 * 60_000;
/** Maximum age of a runner whose program stays. */
const MAX_PROGRAM_AGE_MS = 2 * 3_600_000;

/**
 * Returns for how many milliseconds a runner of this age waits for its next session: half a minute, or as long as its
 * program may be idle, which starts after the first minute at the earliest, because that is billed anyway. 0 or less from
 * an age of 15 minutes on, or of two hours with a program.
 */
export const warmMs = (ageMs: number, idleMs?: number): number =>
  Math.min(Math.max(ageMs, PAID_MS) + (idleMs ?? IDLE_MS), idleMs === undefined ? MAX_AGE_MS : MAX_PROGRAM_AGE_MS) -
  ageMs;
