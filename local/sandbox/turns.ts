import { availableParallelism, totalmem } from 'node:os';
import { PlatformError } from '#core/base/errors.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Sandbox, SandboxSession, SandboxSpec, SandboxTurn } from '#core/ports/sandbox.ts';

/** Most runs are short, wait for something, or use a tenth of the memory that they may. */
const PER_PROCESSOR = 16;
const BYTES_EACH = 128 * 1024 * 1024;
const FEWEST = 4;

/** How many sandboxes this machine bears at once, when nobody says. */
export const bearableSandboxes = (): number =>
  Math.max(FEWEST, Math.min(availableParallelism() * PER_PROCESSOR, Math.floor(totalmem() / 2 / BYTES_EACH)));

interface Waiter {
  readonly owner: string;
  start(): void;
}

/**
 * A sandbox of which so many sessions are open at the same moment. Further ones wait, and the next to open is that of the
 * owner who has fewest open: whoever sends a hundred calls waits for his own. No owner has more than three quarters,
 * so that a burst of long runs leaves room for others. What has no turn to take is opened at once: a sub-call must not
 * wait for the end of the run that waits for it.
 */
export class SandboxTurns implements Sandbox {
  readonly #sandbox: Sandbox;
  readonly #clock: Clock;
  readonly #most: number;
  readonly #mostEach: number;
  readonly #open = new Map<string, number>();
  /** In the order in which they came. */
  readonly #waiting = new Set<Waiter>();

  constructor(sandbox: Sandbox, { most, clock }: { most: number; clock: Clock }) {
    this.#sandbox = sandbox;
    this.#clock = clock;
    this.#most = most;
    this.#mostEach = Math.floor((most * 3) / 4);
  }

  /** Throws RATE_LIMITED when half of the time until the deadline is over before there is room. */
  async open({ turn, ...spec }: SandboxSpec): Promise<SandboxSession> {
    if (turn === undefined) return this.#sandbox.open(spec);
    await this.#take(turn, spec.signal);
    let session: SandboxSession;
    try {
      session = await this.#sandbox.open(spec);
    } catch (error) {
      this.#leave(turn.owner);
      throw error;
    }
    let isOpen = true;
    return {
      exec: (request) => session.exec(request),
      writeFile: (path, content) => session.writeFile(path, content),
      readFile: (path) => session.readFile(path),
      listFiles: (path, options) => session.listFiles(path, options),
      close: async () => {
        try {
          await session.close();
        } finally {
          if (isOpen) this.#leave(turn.owner);
          isOpen = false;
        }
      },
    };
  }

  status() {
    return this.#sandbox.status();
  }

  close() {
    return this.#sandbox.close();
  }

  async #take({ owner, deadline }: SandboxTurn, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    if (this.#hasRoom(owner)) return this.#enter(owner);
    const { promise, resolve } = Promise.withResolvers<void>();
    const started = new AbortController();
    const waiter: Waiter = {
      owner,
      start: () => {
        this.#enter(owner);
        started.abort();
        resolve();
      },
    };
    this.#waiting.add(waiter);
    // So that whatever gets its turn has time to run.
    const patienceMs = Math.max(0, (deadline - this.#clock.now()) / 2);
    const impatient = signal ? AbortSignal.any([signal, started.signal]) : started.signal;
    const outOfPatience = this.#clock.sleep(patienceMs, impatient).then(() => {
      throw new PlatformError(
        'RATE_LIMITED',
        `The platform runs ${this.#most} agents at once, and none of them ended within ${Math.round(patienceMs / 1000)} s to let this one run.`,
        { suggested_wait_time: Math.max(1, Math.round(patienceMs / 1000)) },
      );
    });
    try {
      await Promise.race([promise, outOfPatience]);
    } catch (error) {
      // The turn may have come in the same moment.
      if (started.signal.aborted) return;
      this.#waiting.delete(waiter);
      throw error;
    }
  }

  #enter(owner: string): void {
    this.#open.set(owner, this.#openOf(owner) + 1);
  }

  #leave(owner: string): void {
    const left = this.#openOf(owner) - 1;
    if (left > 0) this.#open.set(owner, left);
    else this.#open.delete(owner);
    let next: Waiter | undefined;
    for (const waiter of this.#waiting) {
      if (!this.#hasRoom(waiter.owner)) continue;
      if (next === undefined || this.#openOf(waiter.owner) < this.#openOf(next.owner)) next = waiter;
    }
    if (next === undefined) return;
    this.#waiting.delete(next);
    next.start();
  }

  #openOf(owner: string): number {
    return this.#open.get(owner) ?? 0;
  }

  #hasRoom(owner: string): boolean {
    if (this.#openOf(owner) >= this.#mostEach) return false;
    let all = 0;
    for (const count of this.#open.values()) all += count;
    return all < this.#most;
  }
}
