import type { DatabaseSync } from 'node:sqlite';

/** Unused pages that always stay: new records will need them. */
const MIN_UNUSED_PAGES = 8_000;
/** Part of the file that may be unused. */
const MAX_UNUSED = 0.25;

/**
 * Returns at most `maxPages` unused pages to the disk while more than a quarter of the file is unused, and their number.
 * Moves only as many pages as it returns. A file that an earlier version made stays as it is: SQLite cannot shrink it
 * without copying it.
 */
export function shrink(db: DatabaseSync, maxPages: number, minUnused = MIN_UNUSED_PAGES): number {
  const read = (name: string): number => Number(Object.values(db.prepare(`PRAGMA ${name}`).get()!)[0]);
  if (read('auto_vacuum') !== INCREMENTAL) return 0;
  const unused = read('freelist_count');
  // The file gets smaller with each page that it returns.
  const surplus = Math.floor(
    Math.min(unused - minUnused, (unused - MAX_UNUSED * read('page_count')) / (1 - MAX_UNUSED)),
  );
  if (surplus <= 0) return 0;
  const count = Math.min(surplus, maxPages);
  db.exec(`PRAGMA incremental_vacuum(${count})`);
  return unused - read('freelist_count');
}

const INCREMENTAL = 2;
