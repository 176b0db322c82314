import { onTestFinished } from 'vitest';
import { SystemClock } from '#core/ports/clock.ts';
import { openDatabase } from '#local/database/database.ts';
import { SqliteTable } from '#local/database/sqlite-table.ts';
import { ledgerSuite } from '#test/conformance/ledger.ts';

ledgerSuite(
  async () => {
    const database = openDatabase(':memory:');
    onTestFinished(() => database.close());
    const clock = new SystemClock();
    return { main: new SqliteTable(database, 'main', clock), runs: new SqliteTable(database, 'runs', clock) };
  },
  { rounds: 2000, findsRareFaults: true },
);
