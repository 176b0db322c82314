import type { Clock } from '#core/ports/clock.ts';
import type { Log } from '#core/ports/deps.ts';
import { endsRun } from '#core/runs/usage/ended-run.ts';
import { openDatabase } from '#local/database/database.ts';
import { LocalFeed } from '#local/database/local-feed.ts';
import { SqliteTable } from '#local/database/sqlite-table.ts';
import { startSums } from '#local/start-sums.ts';

const SILENT: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** Creates the tables of the local host in memory. Usage of runs is summed when somebody reads it. */
export function memoryTables(clock: Clock, { database = openDatabase(':memory:'), log = SILENT } = {}) {
  const endedRuns = new LocalFeed(database, endsRun, 0);
  const runs = new SqliteTable(database, 'runs', clock, { feed: endedRuns });
  const counters = new SqliteTable(database, 'counters', clock);
  startSums(endedRuns, runs, { runs, counters, clock, log });
  return { main: new SqliteTable(database, 'main', clock), runs, counters, endedRuns };
}
