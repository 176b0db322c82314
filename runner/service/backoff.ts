const FIRST_MS = 1000;
const LONGEST_MS = 60_000;
const JITTER = 0.1;

/** An app that was ready for so long has started well. */
export const STEADY_MS = 60_000;

/**
 * How long an app that ended waits for its next start (`docs/interface/service-instances.md#restarts`), and a request to the platform
 * for its next try: a second, twice as long after each further failure in a row, at most a minute; a tenth more or less, so
 * that services that failed together do not start together.
 *
 * @param failures starts in a row that failed, 0 for an app that ran well before
 * @param random from 0 to 1
 */
export function restartDelay(failures: number, random: number): number {
  const doubled = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.max(0, failures - 1));
  return Math.round(doubled * (1 - JITTER + 2 * JITTER * random));
}
