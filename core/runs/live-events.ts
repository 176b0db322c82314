import type { Json } from '#core/base/json.ts';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type Item, queryAll } from '#core/ports/table.ts';
import { hexOf } from './items.ts';
import type { SecretMask } from './masking/masking.ts';

/**
 * Events of a run while it is running, for clients that watch it. Runs table:
 *
 * - `WS#<workspace id>#RUNEVENTS#<run id without dashes> / <number of its last event, 8 digits>`: a batch of events,
 * with
 *   expiry.
 *
 * A run that ends within its first second writes none, unless a client may come back to its stream: clients get its record instead.
 */
export interface LiveEvent {
  readonly type: 'progress' | 'trace';
  /** Epoch milliseconds. */
  readonly at: number;
  readonly data: { readonly [member: string]: Json };
}

/** An event with its number in the run, from 1. */
export interface NumberedEvent extends LiveEvent {
  readonly number: number;
}

const FIRST_WRITE_MS = 1000;
const BATCH_MS = 750;
const KEPT_SECONDS = 24 * 3600;
/** Maximum text of an item. Even at three bytes per character, it is far below DynamoDB's 400 KB. */
const MAX_BATCH_CHARACTERS = 64 * 1024;
/** Maximum text of a run. Its record has limits of its own. */
const MAX_CHARACTERS = 2 * 1024 * 1024;
/** Upper bound on the size of an event without its text. */
const EVENT_CHARACTERS = 300;
const LAST_WRITE_TRIES = 3;

export const eventPartition = (workspaceId: string, runId: string): string =>
  `WS#${workspaceId}#RUNEVENTS#${hexOf(runId)}`;
const sortKey = (number: number): string => String(number).padStart(8, '0');

type WriterDeps = Pick<Deps, 'runs' | 'clock' | 'log'>;

/** Numbers for events that the process before still writes although it has lost the run. */
const LATE_EVENTS = 1000;

interface WatchedRun {
  readonly workspaceId: string;
  readonly runId: string;
  /** Epoch milliseconds. */
  readonly startedAt: number;
  /** How long the run may wait, in milliseconds: its events are kept for so much longer. @default 0 */
  readonly waitMs?: number;
  /** Whether events are written even if the run ends at once. @default false */
  readonly isFollowed?: boolean;
}

/** Writes the events of one run in batches. A failed write is retried with the next batch; the run never waits. */
export class LiveEvents {
  readonly #deps: WriterDeps;
  readonly #run: WatchedRun;
  readonly #mask: SecretMask;
  #waiting: LiveEvent[] = [];
  #count = 0;
  #characters = 0;
  #isCut = false;
  #hasWritten = false;
  #cancelTimer: (() => void) | undefined;
  #writing: Promise<void> = Promise.resolve();

  /**
   * @param past Number of events that other processes wrote. @default - there was no other process
   */
  constructor(deps: WriterDeps, run: WatchedRun, mask: SecretMask, past?: number) {
    this.#deps = deps;
    this.#run = run;
    this.#mask = mask;
    this.#count = past === undefined ? 0 : past + LATE_EVENTS;
    this.#hasWritten = past !== undefined && past > 0;
  }

  readonly add = (type: LiveEvent['type'], data: object): void => {
    // If the host dies, this is the only record of what the run has spent: see `lost-run.ts`.
    const hasSpent = 'token_input' in data;
    if (this.#isCut && !hasSpent) return;
    // Half of the limit is reserved for the run's output and steps.
    if ('content' in data && this.#characters + lengthOf(data) > MAX_CHARACTERS / 2) {
      const { content: _, ...step } = data;
      data = step;
    }
    const { text } = data as { readonly text?: unknown };
    const length = typeof text === 'string' ? text.length : 0;
    this.#characters += lengthOf(data);
    const at = this.#deps.clock.now();
    if (this.#characters > MAX_CHARACTERS && !hasSpent) {
      this.#isCut = true;
      this.#waiting.push({ type, at, data: { type: 'output_truncated' } });
    } else if (length > 0) this.#addText({ type, at, data: data as LiveEvent['data'] }, text as string);
    else this.#waiting.push({ type, at, data: data as LiveEvent['data'] });
    this.#cancelTimer ??= this.#deps.clock.after(
      Math.max(BATCH_MS, this.#run.startedAt + FIRST_WRITE_MS - at),
      this.#write,
    );
  };

  /** Writes the events so far, and returns the number of the last one. Never throws. */
  async position(): Promise<number> {
    this.#cancelTimer?.();
    this.#write();
    await this.#writing;
    return this.#count;
  }

  /**
   * Flushes pending events, unless the run is over and so short that it has written none: its record has them. All that is
   * known of a run that leaves its process is in its events. Never throws.
   */
  async end({ isOver = true }: { readonly isOver?: boolean } = {}): Promise<void> {
    this.#cancelTimer?.();
    const age = this.#deps.clock.now() - this.#run.startedAt;
    if (this.#waiting.length === 0 && !this.#hasWritten) return;
    if (isOver && age < FIRST_WRITE_MS && !this.#hasWritten && !this.#run.isFollowed) return;
    for (let left = LAST_WRITE_TRIES; left > 0 && this.#waiting.length > 0; left--) {
      this.#write();
      await this.#writing;
    }
    await this.#writing;
  }

  /** Merges consecutive output, so that a program that prints line by line makes one event of many lines. */
  #addText(event: LiveEvent, text: string): void {
    const last = this.#waiting.at(-1);
    const before = last?.data.text;
    const isSame = last !== undefined && last.type === event.type && last.data.type === event.data.type;
    if (isSame && typeof before === 'string' && before.length + text.length <= MAX_BATCH_CHARACTERS) {
      this.#waiting[this.#waiting.length - 1] = { ...last, data: { ...last.data, text: before + text } };
      return;
    }
    for (const piece of piecesOf(text)) this.#waiting.push({ ...event, data: { ...event.data, text: piece } });
  }

  readonly #write = (): void => {
    this.#cancelTimer = undefined;
    this.#writing = this.#writing.then(() => this.#writeWaiting());
  };

  async #writeWaiting(): Promise<void> {
    const { runs, clock, log } = this.#deps;
    const { workspaceId, runId, waitMs = 0 } = this.#run;
    let batch: LiveEvent[] = [];
    try {
      while (this.#waiting.length > 0) {
        // Removed from the queue before the write: text that arrives during it is appended to the last queued event.
        batch = this.#waiting.splice(0, lengthOfBatch(this.#waiting));
        // Drops undefined members, which neither the mask nor the table accepts.
        const events = this.#mask.json(JSON.parse(JSON.stringify(batch)));
        const sk = sortKey(this.#count + batch.length);
        const ttl = epochSeconds(clock.now() + waitMs) + KEPT_SECONDS;
        await runs.put({ pk: eventPartition(workspaceId, runId), sk, events, ttl });
        this.#hasWritten = true;
        this.#count += batch.length;
        batch = [];
      }
    } catch (error) {
      this.#waiting.unshift(...batch);
      log.warn('events of a run not written', { run_id: runId, error: String(error) });
    }
  }
}

function lengthOfBatch(events: readonly LiveEvent[]): number {
  let characters = 0;
  const end = events.findIndex(({ data }) => {
    characters += lengthOf(data);
    return characters > MAX_BATCH_CHARACTERS + EVENT_CHARACTERS;
  });
  return end < 0 ? events.length : Math.max(1, end);
}

function lengthOf(data: object): number {
  const { text, content } = data as { readonly text?: unknown; readonly content?: object };
  const length = typeof text === 'string' ? text.length : 0;
  return EVENT_CHARACTERS + length + (content === undefined ? 0 : JSON.stringify(content).length);
}

/** Splits a text without splitting a character. */
function piecesOf(text: string): string[] {
  const pieces: string[] = [];
  for (let start = 0; start < text.length; ) {
    let end = Math.min(text.length, start + MAX_BATCH_CHARACTERS);
    const code = text.charCodeAt(end - 1);
    if (end < text.length && code >= 0xd800 && code < 0xdc00) end--;
    pieces.push(text.slice(start, end));
    start = end;
  }
  return pieces;
}

/** Yields the events of a run after number `after`, in order; none if the run wrote none or they have expired. */
export async function* liveEventsOf(
  { runs }: Pick<Deps, 'runs'>,
  { workspaceId, runId }: { readonly workspaceId: string; readonly runId: string },
  after: number,
): AsyncGenerator<NumberedEvent> {
  const query = { pk: eventPartition(workspaceId, runId), sk: { greaterThan: sortKey(after) }, limit: 50 };
  let last = after;
  // If the response to a write was lost, its batch may be in two items.
  for await (const item of queryAll(runs, query)) {
    for (const event of numbered(item)) {
      if (event.number <= last) continue;
      last = event.number;
      yield event;
    }
  }
}

function numbered({ sk, events }: Item): NumberedEvent[] {
  const list = events as unknown as LiveEvent[];
  const first = Number(sk) - list.length + 1;
  return list.map((event, index) => ({ ...event, number: first + index }));
}
