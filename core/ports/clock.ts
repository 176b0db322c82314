import { setTimeout } from 'node:timers/promises';

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

/** Timers of Node end at once when asked for more than a 32-bit number of milliseconds. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The machine's own time, on both hosts. */
export class SystemClock implements Clock {
  now(): number {
    return Date.now();
  }

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    try {
      for (let left = ms; ; left -= LONGEST_TIMER_MS) {
        await setTimeout(Math.min(left, LONGEST_TIMER_MS), undefined, { signal });
        if (left <= LONGEST_TIMER_MS) return;
      }
    } catch (error) {
      throw signal?.aborted ? signal.reason : error;
    }
  }
}
