import { onTestFinished } from 'vitest';
import { openDatabase } from '#local/database/database.ts';
import { SqliteTable } from '#local/database/sqlite-table.ts';
import { sessionsSuite } from '#test/conformance/sessions.ts';

sessionsSuite(async (clock) => {
  const database = openDatabase(':memory:');
  onTestFinished(() => database.close());
  return new SqliteTable(database, 'runs', clock);
});
