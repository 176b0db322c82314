const IDLE_MS = 30_000;
/** Fargate bills tasks by the second with a minimum of one minute: aws.amazon.com/fargate/pricing. */
const PAID_MS = 60_000;
const MAX_AGE_MS = 15 * 60_000;

/**
 * Returns for how many milliseconds a runner of this age waits for its next session: half a minute, which starts after
 * the first minute at the earliest, because that is billed anyway. 0 or less from an age of 15 minutes on.
 */
export const warmMs = (ageMs: number): number => Math.min(Math.max(ageMs, PAID_MS) + IDLE_MS, MAX_AGE_MS) - ageMs;
