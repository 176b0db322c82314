import { openDatabase } from '#local/database.ts';
import { FolderBlobs } from '#local/folder-blobs.ts';
import { SqliteTable } from '#local/sqlite-table.ts';
import { usageSuite } from '#test/conformance/usage.ts';

usageSuite(async (clock) => {
  const database = openDatabase(':memory:');
  return {
    main: new SqliteTable(database, 'main', clock),
    runs: new SqliteTable(database, 'runs', clock),
    counters: new SqliteTable(database, 'counters', clock),
    blobs: new FolderBlobs('unused'),
  };
});
