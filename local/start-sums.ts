import { sumEndedRuns } from '#core/billing/usage/sum-ended-runs.ts';
import type { Deps } from '#core/ports/deps.ts';
import { runIdOf } from '#core/runs/items.ts';
import { noteForScores } from '#core/runs/online/notes.ts';
import { noteForExport } from '#core/runs/telemetry/backlog.ts';
import type { LocalFeed } from './database/local-feed.ts';
import type { SqliteTable } from './database/sqlite-table.ts';

/** Sums the usage of runs that end, and notes those whose spans are sent, and those that are scored. */
export function startSums(
  feed: LocalFeed,
  runs: SqliteTable,
  deps: Pick<Deps, 'runs' | 'counters' | 'clock' | 'log' | 'operatorTelemetry'>,
): void {
  const { log } = deps;
  feed.start(
    runs,
    async (shard, records) => {
      // First, because a batch that fails comes again.
      await noteForExport(deps, shard, records);
      await noteForScores(deps, records);
      await sumEndedRuns(
        deps,
        {
          shard,
          async onMalformed({ item }, error) {
            log.error('usage of a run not counted', { run_id: runIdOf(item), error: String(error) });
          },
        },
        records,
      );
    },
    (message, error) => log.error(message, { error: String(error) }),
  );
}
