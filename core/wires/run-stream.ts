import { isPlatformError } from '#core/base/errors.ts';
import type { ProgressEvent } from '#core/execution/engines/progress.ts';
import { withLeavingReader } from '#core/http/leaving-reader.ts';
import type { Deps } from '#core/ports/deps.ts';
import { approvalsOfRun } from '#core/runs/approvals/store.ts';
import { liveEventsOf } from '#core/runs/live-events.ts';
import { RunStore } from '#core/runs/store.ts';
import type { LocalProgress } from './local-progress.ts';
import { type RunMapping, storedEnd } from './run-mapping.ts';

/** Shorter than the idle timeouts of common proxies. */
const HEARTBEAT_MS = 15_000;
/** Maximum time that a revoked key can continue reading. */
const CHECK_MS = 5_000;
const POLL_MS = 1_000;

/** Writes the events of a protocol as records of a stream. */
export interface RunWriter<Event> {
  /** Called before the events of the run are read again from the beginning. */
  restart(): void;
  write(events: readonly Event[]): Uint8Array | undefined;
  /** Says that the stream ends before the run: its client comes back. */
  goesOn(): Uint8Array;
  refusal(error: unknown): Uint8Array;
}

export interface RunStreamOptions<Event> {
  readonly run: {
    readonly workspaceId: string;
    readonly runId: string;
    /** Number of the run's event after which the stream begins. 0: at the beginning of the run. */
    readonly after: number;
  };
  readonly newMapping: () => RunMapping<Event>;
  readonly writer: RunWriter<Event>;
  /** The run's progress, if this process works on it. @default - only what is stored of it */
  readonly local?: LocalProgress;
  /** Epoch milliseconds. */
  readonly until: number;
  /** Throws if the caller has lost its access. */
  readonly check: () => Promise<void>;
  /** Takes a place among the open streams of the workspace, and returns what gives it back; `undefined` if there is none. */
  readonly takePlace: () => Promise<(() => Promise<void>) | undefined>;
}

/**
 * The stream of a client's run in the protocol of another platform: first as this process makes it, then, if the run
 * continues elsewhere or the reader is too slow, as it is stored. It ends with the run, with what the run asks people, or at
 * its time limit without an end: its client then resumes it.
 */
export class RunStream<Event> implements AsyncIterable<Uint8Array> {
  readonly #deps: Deps;
  readonly #options: RunStreamOptions<Event>;
  readonly #left = new AbortController();
  #mapping: RunMapping<Event>;

  constructor(deps: Deps, options: RunStreamOptions<Event>) {
    this.#deps = deps;
    this.#options = options;
    this.#mapping = options.newMapping();
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    return withLeavingReader(this.#texts(), this.#left);
  }

  async *#texts(): AsyncGenerator<Uint8Array> {
    const { local, writer } = this.#options;
    const { log, watching } = this.#deps;
    const signal = watching ? AbortSignal.any([this.#left.signal, watching.closing]) : this.#left.signal;
    try {
      yield* this.#write(this.#mapping.start());
      const isOver = local !== undefined && (yield* this.#fromProcess(local, signal));
      if (!isOver && !signal.aborted) yield* this.#fromStore(signal);
    } catch (error) {
      if (signal.aborted) return;
      if (!isPlatformError(error)) log.warn('a stream of events ended', { error: String(error) });
      yield writer.refusal(error);
    }
  }

  /** Sends what this process does. Returns whether the client's run is over; it may continue elsewhere. */
  async *#fromProcess(local: LocalProgress, signal: AbortSignal): AsyncGenerator<Uint8Array, boolean> {
    const { clock } = this.#deps;
    const { until } = this.#options;
    let asksPeople = false;
    for (;;) {
      const { events, isCut, outcome } = local.take();
      if (isCut) return false;
      for (const event of events) asksPeople ||= event.type === 'waiting' && this.#mapping.isInterrupt(event);
      yield* this.#write(events.flatMap((event) => this.#mapping.progress(event)));
      if (outcome !== undefined) {
        // Its events are stored once it has left the process, so that the client may answer at once.
        if (asksPeople && outcome === 'continues') return yield* this.#interrupt();
        if (outcome === 'continues') return false;
        yield* this.#write(this.#mapping.end(outcome));
        return true;
      }
      if (clock.now() >= until) {
        yield this.#options.writer.goesOn();
        return true;
      }
      const isQuiet = !(await local.changed(clock, Math.min(HEARTBEAT_MS, until - clock.now()), signal));
      if (signal.aborted) return true;
      if (isQuiet) yield HEARTBEAT;
    }
  }

  async *#fromStore(signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const { newMapping, writer, check, takePlace } = this.#options;
    const giveBack = await takePlace();
    // The run continues without this stream.
    if (giveBack === undefined) {
      yield writer.goesOn();
      return;
    }
    try {
      // Read again from the beginning, after what was sent.
      writer.restart();
      this.#mapping = newMapping();
      yield* this.#write(this.#mapping.start());
      yield* this.#polled(signal, check);
    } finally {
      await giveBack().catch(() => {});
    }
  }

  async *#polled(signal: AbortSignal, check: () => Promise<void>): AsyncGenerator<Uint8Array> {
    const { clock, watching } = this.#deps;
    const { workspaceId, runId, after } = this.#options.run;
    const runs = new RunStore(this.#deps, workspaceId);
    let last = after;
    let sentAt = clock.now();
    let checkedAt = clock.now();
    while (!signal.aborted) {
      // Read before the events, because a run writes all events before its end.
      const run = await runs.find(runId);
      const events: Event[] = [];
      for await (const { number, type, data } of liveEventsOf(this.#deps, { workspaceId, runId }, last)) {
        last = number;
        if (type !== 'progress') continue;
        const event = data as unknown as ProgressEvent;
        if (event.type === 'waiting' && this.#mapping.isInterrupt(event)) {
          yield* this.#write(events);
          yield* this.#interrupt();
          return;
        }
        events.push(...this.#mapping.progress(event));
      }
      const end = await storedEnd(runs, run);
      if (end !== undefined) {
        yield* this.#write([...events, ...this.#mapping.end(end)]);
        return;
      }
      if (events.length > 0) {
        yield* this.#write(events);
        sentAt = clock.now();
      } else if (clock.now() - sentAt >= HEARTBEAT_MS) {
        yield HEARTBEAT;
        sentAt = clock.now();
      }
      if (clock.now() >= this.#options.until) {
        yield this.#options.writer.goesOn();
        return;
      }
      await clock.sleep(watching?.pollMs ?? POLL_MS, signal).catch(() => {});
      if (clock.now() - checkedAt < CHECK_MS || signal.aborted) continue;
      await check();
      checkedAt = clock.now();
    }
  }

  async *#interrupt(): AsyncGenerator<Uint8Array, true> {
    yield* this.#write(this.#mapping.interrupt(await approvalsOfRun(this.#deps, this.#options.run)));
    return true;
  }

  *#write(events: readonly Event[]): Generator<Uint8Array> {
    const records = this.#options.writer.write(events);
    if (records !== undefined) yield records;
  }
}

const HEARTBEAT = Buffer.from(': heartbeat\n\n');
