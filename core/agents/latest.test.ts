import { openDatabase } from '#local/database/database.ts';
import { SqliteTable } from '#local/database/sqlite-table.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { agentListingSuite } from '#test/conformance/agent-listing.ts';

agentListingSuite(async (clock) => {
  const database = openDatabase(':memory:');
  const table = (name: 'main' | 'runs' | 'counters') => new SqliteTable(database, name, clock);
  return { main: table('main'), runs: table('runs'), counters: table('counters'), blobs: new FolderBlobs('unused') };
});
