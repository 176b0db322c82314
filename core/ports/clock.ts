/** Time, as a port: tests control it, and nothing else calls `Date.now`. */
export interface Clock {
  /** Epoch milliseconds. */
  now(): number;
  /** Resolves after `ms` milliseconds of this clock, or rejects with the signal's reason. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls `work` after `ms` milliseconds; the returned function cancels it. Cheaper than aborting a sleep. */
  after(ms: number, work: () => void): () => void;
}

/** A call writes the same few times, and the same day, to several items. */
const lastTimes = Array.from({ length: 16 }, () => ({ at: Number.NaN, text: '' }));
let lastDay = { at: Number.NaN, text: '' };
const DAY_MS = 86_400_000;

/** Formats a time as ISO 8601 in UTC with `Z` (`docs/interface/identifiers.md#formats`). */
export function isoTime(epochMs: number): string {
  const place = Math.abs(epochMs % lastTimes.length) | 0;
  let known = lastTimes[place]!;
  if (known.at !== epochMs) {
    known = { at: epochMs, text: new Date(epochMs).toISOString() };
    lastTimes[place] = known;
  }
  return known.text;
}
/** The UTC day, such as `2026-11-21`. */
export function dayOf(epochMs: number): string {
  const at = Math.floor(epochMs / DAY_MS);
  if (at !== lastDay.at) lastDay = { at, text: new Date(epochMs).toISOString().slice(0, 10) };
  return lastDay.text;
}
export const epochSeconds = (epochMs: number): number => Math.floor(epochMs / 1000);

/** Node fires timers with a longer delay immediately. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The clock of the machine, on both hosts. */
export class SystemClock implements Clock {
  now(): number {
    return Date.now();
  }

  /** Does not use `node:timers/promises`: its error with a stack for each aborted sleep costs more than the sleep. */
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const cancel = this.after(ms, () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      });
      const onAbort = (): void => {
        cancel();
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  }

  after(ms: number, work: () => void): () => void {
    let left = ms;
    let timer: NodeJS.Timeout;
    const wait = (): void => {
      const step = Math.min(left, LONGEST_TIMER_MS);
      timer = setTimeout(left > step ? wait : work, step);
      left -= step;
    };
    wait();
    return () => clearTimeout(timer);
  }
}
