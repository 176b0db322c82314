const FIRST_MS = 1000;
const LONGEST_MS = 60_000;
const JITTER = 0.1;

/** An app that was ready for this long counts as started successfully. */
export const STEADY_MS = 60_000;

/**
 * Returns the delay before the next start of an app that ended (`docs/interface/service-instances.md#restarts`), or
 * before the retry of a request to the platform. Exponential backoff from a second up to a minute, with 10% jitter so
 * that services that failed together do not start together.
 *
 * @param failures Number of consecutive failed starts, 0 for an app that ran well before.
 * @param random From 0 to 1.
 */
export function restartDelay(failures: number, random: number): number {
  const doubled = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.max(0, failures - 1));
  return Math.round(doubled * (1 - JITTER + 2 * JITTER * random));
}
