import { setImmediate } from 'node:timers/promises';
import type { Clock } from '#core/ports/clock.ts';

/** Start time far in the future, because DynamoDB's TTL uses real time and would remove test data. */
const START = Date.parse('2035-06-01T12:00:00Z');

/** A clock that stands still until a test moves it. */
export class ManualClock implements Clock {
  #now: number;
  readonly #sleepers = new Set<{ wakeAt: number; readonly wake: () => void }>();

  constructor(startMs = START) {
    this.#now = startMs;
  }

  /** Number of waiting calls of `sleep` and `after`; tests poll it until the code under test pauses. */
  get sleepers(): number {
    return this.#sleepers.size;
  }

  now(): number {
    return this.#now;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const stop = (settle: () => void) => () => {
        this.#sleepers.delete(sleeper);
        signal?.removeEventListener('abort', onAbort);
        settle();
      };
      const onAbort = stop(() => reject(signal?.reason));
      const sleeper = { wakeAt: this.#now + ms, wake: stop(resolve) };
      signal?.addEventListener('abort', onAbort);
      this.#sleepers.add(sleeper);
    });
  }

  after(ms: number, work: () => void): () => void {
    const sleeper = {
      wakeAt: this.#now + ms,
      wake: () => {
        this.#sleepers.delete(sleeper);
        work();
      },
    };
    this.#sleepers.add(sleeper);
    return () => void this.#sleepers.delete(sleeper);
  }

  /** Sets the clock forward or back. Sleepers still wake after their time. */
  jump(ms: number): void {
    this.#now += ms;
    for (const sleeper of this.#sleepers) sleeper.wakeAt += ms;
  }

  /**
   * Advances time. Sleepers wake in order of their times, each at its own time. Each gets a turn of the event loop, so
   * a sleeper that sleeps again within the span wakes again.
   */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    for (;;) {
      const [next] = [...this.#sleepers].sort((a, b) => a.wakeAt - b.wakeAt);
      if (!next || next.wakeAt > end) break;
      this.#now = Math.max(this.#now, next.wakeAt);
      next.wake();
      await setImmediate();
    }
    this.#now = end;
    // Commits happen at the end of the turn, even without a sleeper.
    await setImmediate();
  }
}
