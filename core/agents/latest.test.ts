import { openDatabase } from '#local/database.ts';
import { FolderBlobs } from '#local/folder-blobs.ts';
import { SqliteTable } from '#local/sqlite-table.ts';
import { agentListingSuite } from '#test/conformance/agent-listing.ts';

agentListingSuite(async (clock) => {
  const database = openDatabase(':memory:');
  const table = (name: 'main' | 'runs' | 'counters') => new SqliteTable(database, name, clock);
  return { main: table('main'), runs: table('runs'), counters: table('counters'), blobs: new FolderBlobs('unused') };
});
