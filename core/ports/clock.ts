/** Time, as a port: tests set it, nothing else calls `Date.now`. */
export interface Clock {
  /** Epoch milliseconds. */
  now(): number;
  /** Resolves after `ms` milliseconds of this clock, or rejects with the signal's reason. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** ISO 8601 in UTC with `Z` (`contract.md` 0.5). */
export const isoTime = (epochMs: number): string => new Date(epochMs).toISOString();
export const epochSeconds = (epochMs: number): number => Math.floor(epochMs / 1000);
