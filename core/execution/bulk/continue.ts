import type { Deps } from '#core/ports/deps.ts';
import { listDueBulks } from '#core/runs/bulk/store.ts';

/** A process starts new runs of bulk actions for this long, then leaves the rest to the next process. */
const SLICE_MS = 50_000;

/**
 * Continues bulk actions that no process holds. Each run is handled at most once, even if processes die: the id of a
 * run's replay is derived from the action and the run, and is recorded only if it does not exist yet. Safe to run at any
 * time, on any host; returns when the runs that it started have ended.
 */
export async function continueBulks(deps: Deps, sliceMs = SLICE_MS): Promise<void> {
  const until = deps.clock.now() + sliceMs;
  const due = await Array.fromAsync(listDueBulks(deps));
  if (due.length === 0) return;
  // Loaded lazily: the clock finds nothing to do most of the time, and smaller functions start faster.
  const { workOn } = await import('./work.ts');
  await Promise.all(
    due.map((bulk) =>
      workOn(deps, bulk, until).catch((error: unknown) =>
        deps.log.error('bulk action stopped', { bulk_id: bulk.id, error: String(error) }),
      ),
    ),
  );
}
