import { availableParallelism, totalmem } from 'node:os';
import { nextInQueue, noPlaceError, queueDeadline, type Work } from '#core/execution/fair-queue.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Sandbox, SandboxSession, SandboxSpec, SandboxTurn } from '#core/ports/sandbox.ts';

/** Most runs are short, wait for something, or use a tenth of their memory limit. */
const PER_PROCESSOR = 16;
const BYTES_EACH = 128 * 1024 * 1024;
const MIN_SANDBOXES = 4;

/** Default maximum number of concurrent sandboxes. */
export const defaultMaxSandboxes = (): number =>
  Math.max(MIN_SANDBOXES, Math.min(availableParallelism() * PER_PROCESSOR, Math.floor(totalmem() / 2 / BYTES_EACH)));

interface Waiter extends Work {
  /** Epoch milliseconds. */
  readonly since: number;
  start(): void;
}

/**
 * A sandbox that opens at most `maxConcurrent` sessions at once, in the order of `core/execution/fair-queue.ts`.
 *
 * Work without a `turn` is opened at once, even when all slots are taken. The limit is an estimate that protects the
 * machine's memory, while sub-calls that waited for a slot could deadlock with the runs above them. Such work counts as
 * open: runs are dequeued when fewer than `maxConcurrent` sessions remain.
 */
export class FairSandbox implements Sandbox {
  readonly #sandbox: Sandbox;
  readonly #clock: Clock;
  readonly #maxConcurrent: number;
  readonly #open = new Set<Work>();
  /** In order of arrival. */
  readonly #waiting = new Set<Waiter>();

  constructor(sandbox: Sandbox, { maxConcurrent, clock }: { maxConcurrent: number; clock: Clock }) {
    this.#sandbox = sandbox;
    this.#clock = clock;
    this.#maxConcurrent = maxConcurrent;
  }

  /** Throws RATE_LIMITED if no slot is free within half of the time until the deadline. */
  async open({ turn, ...spec }: SandboxSpec): Promise<SandboxSession> {
    const work: Work = turn === undefined ? {} : await this.#takeTurn(turn, spec);
    this.#open.add(work);
    let session: SandboxSession;
    try {
      session = await this.#sandbox.open(spec);
    } catch (error) {
      this.#leave(work);
      throw error;
    }
    return {
      exec: (request) => session.exec(request),
      writeFile: (path, content) => session.writeFile(path, content),
      readFile: (path) => session.readFile(path),
      listFiles: (path, options) => session.listFiles(path, options),
      close: async () => {
        try {
          await session.close();
        } finally {
          this.#leave(work);
        }
      },
    };
  }

  /** Number of sandboxes in use and its limit, number of queued runs, and wait time of the first of them. */
  get load(): { readonly running: number; readonly waiting: number; readonly max: number; readonly oldestMs: number } {
    const [oldest] = this.#waiting;
    const oldestMs = oldest === undefined ? 0 : Math.max(0, this.#clock.now() - oldest.since);
    return { running: this.#open.size, waiting: this.#waiting.size, max: this.#maxConcurrent, oldestMs };
  }

  status() {
    return this.#sandbox.status();
  }

  close() {
    return this.#sandbox.close();
  }

  /** Resolves with a slot that is already counted as open. */
  async #takeTurn(
    { owner, deadline, onState }: SandboxTurn,
    { purpose, signal }: Pick<SandboxSpec, 'purpose' | 'signal'>,
  ): Promise<Work> {
    signal?.throwIfAborted();
    const turn = Promise.withResolvers<void>();
    const now = this.#clock.now();
    const waiter: Waiter = { owner, isInstall: purpose === 'install', start: turn.resolve, since: now };
    this.#waiting.add(waiter);
    this.#startNext();
    if (!this.#waiting.has(waiter)) return waiter;
    onState?.('waiting');
    const giveUp = (reason: unknown): void => {
      // The slot may have been granted at the same moment.
      if (this.#waiting.delete(waiter)) turn.reject(reason);
    };
    const onAbort = (): void => giveUp(signal?.reason);
    const patienceMs = queueDeadline(now, deadline) - now;
    const stopTimer = this.#clock.after(patienceMs, () => giveUp(noPlaceError(patienceMs)));
    signal?.addEventListener('abort', onAbort);
    try {
      await turn.promise;
    } finally {
      stopTimer();
      signal?.removeEventListener('abort', onAbort);
    }
    onState?.('taken');
    return waiter;
  }

  #startNext(): void {
    while (this.#waiting.size > 0 && this.#open.size < this.#maxConcurrent) {
      const [next] = nextInQueue([...this.#waiting], this.#open, this.#maxConcurrent);
      if (next === undefined) return;
      this.#waiting.delete(next);
      this.#open.add(next);
      next.start();
    }
  }

  /** Idempotent. */
  #leave(work: Work): void {
    if (this.#open.delete(work)) this.#startNext();
  }
}
