import { onTestFinished } from 'vitest';
import { openDatabase } from '#local/database/database.ts';
import { SqliteTable } from '#local/database/sqlite-table.ts';
import { budgetCommitmentsSuite } from '#test/conformance/budget-commitments.ts';

budgetCommitmentsSuite(async (clock) => {
  const database = openDatabase(':memory:');
  onTestFinished(() => database.close());
  return new SqliteTable(database, 'counters', clock);
});
