import { onTestFinished } from 'vitest';
import { SystemClock } from '#core/ports/clock.ts';
import { openDatabase } from '#local/database/database.ts';
import { SqliteTable } from '#local/database/sqlite-table.ts';
import { topUpsSuite } from '#test/conformance/top-ups.ts';

topUpsSuite(
  async () => {
    const database = openDatabase(':memory:');
    onTestFinished(() => database.close());
    const clock = new SystemClock();
    return { main: new SqliteTable(database, 'main', clock), runs: new SqliteTable(database, 'runs', clock) };
  },
  { rounds: 150 },
);
