import { setImmediate, setTimeout } from 'node:timers/promises';
import type { Clock } from '#core/ports/clock.ts';

interface Sleeper {
  readonly wakeAt: number;
  readonly order: number;
  readonly wake: () => void;
  isCancelled: boolean;
}

/** Turns of the event loop after which all work that does not wait for the clock has reached its next wait. */
const TURNS = 3;
const IDLE_MS = 2;
const MAX_IDLE = 5_000;

/**
 * Clock that jumps to the next wake-up as soon as no other work is left: an hour takes only as long as its work. It
 * suits code that waits only for this clock and in-memory tables.
 */
export class VirtualClock implements Clock {
  #now: number;
  #order = 0;
  /** Heap ordered by time, then by insertion. */
  readonly #heap: Sleeper[] = [];

  constructor(startMs: number) {
    this.#now = startMs;
  }

  now(): number {
    return Math.floor(this.#now);
  }

  after(ms: number, work: () => void): () => void {
    const sleeper = { wakeAt: this.#now + Math.max(0, ms), order: this.#order++, wake: work, isCancelled: false };
    this.#push(sleeper);
    return () => {
      sleeper.isCancelled = true;
    };
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const onAbort = (): void => {
        cancel();
        reject(signal?.reason);
      };
      const cancel = this.after(ms, () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      });
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  }

  /** Advances time until the work has ended. Throws if nothing waits before that. */
  async until<T>(work: Promise<T>): Promise<T> {
    let isEnded = false;
    const ended = work.finally(() => {
      isEnded = true;
    });
    ended.catch(() => {});
    for (let idle = 0; ; ) {
      for (let turn = 0; turn < TURNS; turn++) await setImmediate();
      if (isEnded) return ended;
      const next = this.#pop();
      if (next === undefined) {
        // A module may be loading, which takes real time.
        if (idle++ === MAX_IDLE) throw new Error('nothing waits for the clock, and the work has not ended');
        await setTimeout(IDLE_MS);
        continue;
      }
      idle = 0;
      this.#now = next.wakeAt;
      next.wake();
      // All sleepers of this moment wake before any work that they start.
      while (this.#heap[0]?.wakeAt === next.wakeAt) this.#pop()?.wake();
    }
  }

  #push(sleeper: Sleeper): void {
    const heap = this.#heap;
    let at = heap.push(sleeper) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (isBefore(heap[parent]!, sleeper)) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = sleeper;
  }

  #pop(): Sleeper | undefined {
    for (;;) {
      const top = this.#heap[0];
      const last = this.#heap.pop();
      if (top === undefined || last === undefined) return undefined;
      if (this.#heap.length > 0) this.#sink(last);
      if (!top.isCancelled) return top;
    }
  }

  #sink(sleeper: Sleeper): void {
    const heap = this.#heap;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child += 1;
      if (isBefore(sleeper, heap[child]!)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = sleeper;
  }
}

const isBefore = (a: Sleeper, b: Sleeper): boolean =>
  a.wakeAt < b.wakeAt || (a.wakeAt === b.wakeAt && a.order < b.order);
