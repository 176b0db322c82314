import type { Item } from './table.ts';

/**
 * Changed items of a table, for work that follows a write: each update that a {@link FeedRule} selects becomes a record.
 * A feed has one or more shards. Within a shard records come in the order of their updates; all updates of an item are in
 * one shard, or in later ones that take its place. No record is lost, also if a process dies, but records may come again,
 * in the same batch or in others.
 *
 * On one machine it is `local/database/local-feed.ts`; on AWS a DynamoDB stream, which Lambda reads for a function.
 */
export interface FeedRecord {
  /** Position in the shard, ordered as text. */
  readonly sequence: string;
  /** The item after its update, or a later state. */
  readonly item: Item;
}

/** Whether an update of an existing item belongs to the feed. */
export type FeedRule = (before: Item, after: Item) => boolean;

/** Consumes a batch. If it throws, the same records come again. */
export type FeedConsumer = (shard: string, records: readonly FeedRecord[]) => Promise<void>;

/** A feed that this process consumes itself. */
export interface OwnFeed {
  /** Resolves once the records of all completed updates are consumed, or the attempt failed. Never throws. */
  settle(): Promise<void>;
}
