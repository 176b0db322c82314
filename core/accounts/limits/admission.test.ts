import { onTestFinished } from 'vitest';
import { openDatabase } from '#local/database/database.ts';
import { SqliteTable } from '#local/database/sqlite-table.ts';
import { admissionSuite } from '#test/conformance/admission.ts';

admissionSuite(async (clock) => {
  const database = openDatabase(':memory:');
  onTestFinished(() => database.close());
  return new SqliteTable(database, 'counters', clock);
});
