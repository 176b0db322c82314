import { isPlatformError } from '#core/base/errors.ts';
import { errorEnvelope } from '#core/http/envelope.ts';
import { withLeavingReader } from '#core/http/leaving-reader.ts';
import type { Deps } from '#core/ports/deps.ts';

/** An event in the form that clients receive, in a stream or on a page. */
export interface WatchedEvent<Type extends string = string> {
  /** Cursor to resume after this event. */
  readonly id: string;
  readonly type: Type;
  readonly created_at: string;
  readonly data: { readonly [member: string]: unknown };
}

/** A source of events that is polled. */
export interface Watched<Event = WatchedEvent> {
  /** Returns the events since the last call. `isOver`: no further events follow. */
  look(): Promise<{ readonly events: readonly Event[]; readonly isOver: boolean }>;
}

/** Below five minutes, the stream limit of API Gateway and of the function. */
const MAX_STREAM_MS = 270_000;
/** Shorter than the idle timeouts of common proxies. */
const HEARTBEAT_MS = 15_000;
/** Maximum time that a revoked key can continue reading. */
const CHECK_MS = 5_000;
const POLL_MS = 1_000;

export type WatchDeps = Pick<Deps, 'clock' | 'log' | 'watching'>;

export interface WatchOptions<Event> {
  /** Writes an event in the form of the stream. */
  readonly recordOf: (event: Event) => string;
  /** First text of the stream: it also flushes the headers. @default - sets the reconnection time of browsers */
  readonly begin?: string;
  readonly requestUuid: string;
  /** Throws if the caller has lost its access. */
  readonly check: () => Promise<void>;
  /** Called once, when the stream has ended for any reason. */
  readonly onEnd: () => Promise<void>;
}

/**
 * A stream of server-sent events (`docs/interface/events.md#streams`). It ends when no further events can happen, at
 * its time limit, with an event `error` when the caller loses access, and when the reader disconnects.
 */
export class WatchStream<Event> implements AsyncIterable<Uint8Array> {
  readonly #deps: WatchDeps;
  readonly #watched: Watched<Event>;
  readonly #options: WatchOptions<Event>;
  readonly #left = new AbortController();

  constructor(deps: WatchDeps, watched: Watched<Event>, options: WatchOptions<Event>) {
    this.#deps = deps;
    this.#watched = watched;
    this.#options = options;
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    return withLeavingReader(this.#texts(), this.#left);
  }

  async *#texts(): AsyncGenerator<Uint8Array> {
    const { clock, log, watching } = this.#deps;
    const { check, onEnd, recordOf, requestUuid } = this.#options;
    const signal = watching ? AbortSignal.any([this.#left.signal, watching.closing]) : this.#left.signal;
    const until = clock.now() + MAX_STREAM_MS;
    let lastSentAt = clock.now();
    let lastCheckAt = clock.now();
    try {
      yield Buffer.from(this.#options.begin ?? 'retry: 1000\n\n');
      while (!signal.aborted) {
        const { events, isOver } = await this.#watched.look();
        const now = clock.now();
        if (events.length > 0) yield Buffer.from(events.map(recordOf).join(''));
        else if (!isOver && now - lastSentAt >= HEARTBEAT_MS) yield Buffer.from(': heartbeat\n\n');
        if (events.length > 0 || now - lastSentAt >= HEARTBEAT_MS) lastSentAt = now;
        if (isOver || now >= until) return;
        await clock.sleep(watching?.pollMs ?? POLL_MS, signal);
        if (clock.now() - lastCheckAt < CHECK_MS) continue;
        await check();
        lastCheckAt = clock.now();
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!isPlatformError(error)) log.warn('a stream of events ended', { error: String(error) });
      // The client reconnects, unless it has lost access.
      yield Buffer.from(`event: error\ndata: ${JSON.stringify(errorEnvelope(error, requestUuid).body)}\n\n`);
    } finally {
      await onEnd().catch(() => {});
    }
  }
}

/** JSON text is a single line: line breaks in it are escaped. */
export const recordOf = (event: WatchedEvent): string =>
  `id: ${event.id}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
