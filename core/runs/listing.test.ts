import { openDatabase } from '#local/database/database.ts';
import { SqliteTable } from '#local/database/sqlite-table.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { runListingSuite } from '#test/conformance/run-listing.ts';

runListingSuite(async (clock) => ({
  runs: new SqliteTable(openDatabase(':memory:'), 'runs', clock),
  blobs: new FolderBlobs('unused'),
}));
