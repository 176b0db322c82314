import { openDatabase } from '#local/database/database.ts';
import { SqliteTable } from '#local/database/sqlite-table.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
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
