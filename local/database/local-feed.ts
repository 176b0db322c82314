import type { FeedConsumer, FeedRecord, FeedRule, OwnFeed } from '#core/ports/feed.ts';
import type { Item, Key } from '#core/ports/table.ts';
import type { Database } from './database.ts';
import { nameOf, Row } from './rows.ts';

/** Name of the one shard. */
const SHARD = 'local';
const MAX_BATCH = 500;
const RETRY_MS = 1000;
const SEQUENCE_DIGITS = 16;

/**
 * Rows `FEED#local / <sequence>` with the key of a changed item. The row is written in the group of the change, so a crash
 * loses neither or both. The last consumed row stays, because the next sequence follows it.
 */
const PARTITION = `FEED#${SHARD}`;

/** The table that a feed reads. */
interface FedTable {
  /** Also reads an expired item. */
  readAny(key: Key): Item | undefined;
}

/**
 * A feed of a `SqliteTable`. Updates add their rows by {@link LocalFeed.rowFor}; the consumer gets them some time after they
 * are in the journal, or when somebody waits for it.
 */
export class LocalFeed implements OwnFeed {
  readonly rule: FeedRule;
  readonly #database: Database;
  readonly #everyMs: number;
  #table: FedTable | undefined;
  #consumer: FeedConsumer | undefined;
  #warn: (message: string, error: unknown) => void = () => {};
  /** Keys of the changed items that are not consumed, by the sequence of their rows. */
  readonly #open: Map<number, Key>;
  /** Last sequence that was given away. */
  #last: number;
  /** The last row before those in `#open`, which goes when one of these is consumed. */
  #consumed: number | undefined;
  #draining: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** @param everyMs Time for which records are collected. With 0 they wait for {@link LocalFeed.settle}. */
  constructor(database: Database, rule: FeedRule, everyMs: number) {
    this.#database = database;
    this.rule = rule;
    this.#everyMs = everyMs;
    const rows = database.db.prepare('SELECT sk, item FROM runs WHERE pk = ? ORDER BY sk').all(PARTITION);
    this.#open = new Map(rows.map(({ sk, item }) => [Number(sk), JSON.parse(item as string).of as Key]));
    this.#last = Math.max(0, ...this.#open.keys());
  }

  /** Starts to consume, first what an earlier process left. */
  start(table: FedTable, consumer: FeedConsumer, warn: (message: string, error: unknown) => void): void {
    this.#table = table;
    this.#consumer = consumer;
    this.#warn = warn;
    if (this.#open.size > 0) this.#schedule(0);
  }

  /** Returns the row of a change, for its group. */
  rowFor({ pk, sk }: Key): FeedRow {
    this.#last += 1;
    return new FeedRow(this.#last, { pk, sk });
  }

  /** Call it once the row is in the journal. */
  isWritten({ sequence, of }: FeedRow): void {
    this.#open.set(sequence, of);
    if (this.#everyMs > 0) this.#schedule(this.#everyMs);
  }

  async settle(): Promise<void> {
    // One that has begun may have missed the latest records.
    await this.#draining;
    await this.#drain();
  }

  /** Consumes what there is and stops. */
  async close(): Promise<void> {
    await this.settle();
    clearTimeout(this.#timer);
    this.#consumer = undefined;
  }

  #schedule(ms: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.#drain();
    }, ms).unref();
  }

  #drain(): Promise<void> {
    this.#draining ??= this.#consumeAll()
      .catch((error: unknown) => {
        this.#warn('ends of runs are not summed yet', error);
        if (this.#everyMs > 0) this.#schedule(RETRY_MS);
      })
      .finally(() => {
        this.#draining = undefined;
      });
    return this.#draining;
  }

  async #consumeAll(): Promise<void> {
    while (this.#consumer !== undefined) {
      const batch = [...this.#open].filter(([sequence]) => sequence !== this.#consumed).slice(0, MAX_BATCH);
      if (batch.length === 0) return;
      const records = batch.flatMap(([sequence, key]): FeedRecord[] => {
        const item = this.#table!.readAny(key);
        return item === undefined ? [] : [{ sequence: textOf(sequence), item }];
      });
      if (records.length > 0) await this.#consumer(SHARD, records);
      await this.#remove(batch.map(([sequence]) => sequence));
    }
  }

  async #remove(consumed: readonly number[]): Promise<void> {
    const gone = [this.#consumed, ...consumed.slice(0, -1)].filter((sequence) => sequence !== undefined);
    this.#consumed = consumed.at(-1)!;
    for (const sequence of gone) this.#open.delete(sequence);
    if (gone.length > 0) await this.#database.write(gone.map((sequence) => rowOf(sequence, undefined)));
  }
}

export class FeedRow {
  readonly sequence: number;
  readonly of: Key;
  readonly row: Row;

  constructor(sequence: number, of: Key) {
    this.sequence = sequence;
    this.of = of;
    this.row = rowOf(sequence, of);
  }
}

const textOf = (sequence: number): string => String(sequence).padStart(SEQUENCE_DIGITS, '0');

function rowOf(sequence: number, of: Key | undefined): Row {
  const key = { pk: PARTITION, sk: textOf(sequence) };
  return new Row('runs', nameOf(key), of && JSON.stringify({ ...key, of }), key);
}
