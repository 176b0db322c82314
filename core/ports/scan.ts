import type { Item } from './table.ts';
import type { TableName } from './table-rules.ts';

/** Selects the items of a workspace in a whole table. */
export interface OwnItems {
  /** Beginnings of partition keys. */
  readonly partitions: readonly string[];
  /** Value of their attribute `workspace_id`. */
  readonly workspaceId: string;
}

/**
 * Reads whole tables. Only commands of operators do that: it costs as much as the table is large. Yields at least the items
 * that one of the members of `own` selects, without expired ones. An item that is written meanwhile may be left out.
 */
export interface Scan {
  items(table: TableName, own: OwnItems): AsyncIterable<Item>;
}
