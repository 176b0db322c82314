import type { Clock } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Database } from './database.ts';
import type { SqliteTable } from './sqlite-table.ts';

const EVERY_MS = 5_000;
/** Items in one transaction. In a large table each is on pages of its own, and a write of the platform may wait for all. */
const MAX_ITEMS = 200;
/** Pages returned to the disk in one transaction. */
const MAX_PAGES = 100;
/**
 * Minimum pause after a piece, several times as long as a piece takes. The pause is at least as long as the piece took, its wait
 * for the thread included, so that a slow disk or a busy platform slows it down.
 */
const MIN_REST_MS = 20;

interface UpkeepDeps extends Pick<Deps, 'log'> {
  readonly clock: Pick<Clock, 'sleep'>;
  readonly database: Pick<Database, 'shrink'>;
  readonly tables: readonly Pick<SqliteTable, 'purgeExpired' | 'forget'>[];
}

/**
 * Removes expired items, and returns unused space to the disk. It works in small pieces with pauses, so that no call waits
 * for it. A round ends when nothing is left to do, so it keeps up with any rate of new runs.
 */
export class Upkeep {
  readonly #deps: UpkeepDeps;
  readonly #closing = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> | undefined;

  constructor(deps: UpkeepDeps) {
    this.#deps = deps;
  }

  start(): void {
    this.#timer = setInterval(() => void this.run(), EVERY_MS).unref();
  }

  /** Does everything that is due, unless it is being done. */
  run(): Promise<void> {
    this.#round ??= this.#run()
      .catch((error: unknown) => {
        if (this.#closing.signal.aborted) return;
        this.#deps.log.warn('expired items were not removed', { error: String(error) });
      })
      .finally(() => {
        this.#round = undefined;
      });
    return this.#round;
  }

  /** Waits for the piece that is being done. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#closing.abort();
    await this.#round;
  }

  async #run(): Promise<void> {
    for (const table of this.#deps.tables) {
      const removed = await this.#inPieces(MAX_ITEMS, () => table.purgeExpired(MAX_ITEMS));
      if (removed > 0) table.forget();
    }
    await this.#inPieces(MAX_PAGES, () => this.#deps.database.shrink(MAX_PAGES));
  }

  /** Repeats `work` while it does all that it may. Returns how much it did. */
  async #inPieces(max: number, work: () => Promise<number>): Promise<number> {
    const { signal } = this.#closing;
    for (let done = 0; ; ) {
      signal.throwIfAborted();
      const began = performance.now();
      const count = await work();
      done += count;
      if (count < max) return done;
      await this.#deps.clock.sleep(Math.max(MIN_REST_MS, performance.now() - began), signal);
    }
  }
}
