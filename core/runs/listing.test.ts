import { openDatabase } from '#local/database.ts';
import { FolderBlobs } from '#local/folder-blobs.ts';
import { SqliteTable } from '#local/sqlite-table.ts';
import { runListingSuite } from '#test/conformance/run-listing.ts';

runListingSuite(async (clock) => ({
  runs: new SqliteTable(openDatabase(':memory:'), 'runs', clock),
  blobs: new FolderBlobs('unused'),
}));
