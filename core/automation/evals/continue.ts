import type { Deps } from '#core/ports/deps.ts';
import { listDueEvals } from './due.ts';

/** A process starts new runs of evaluations for this long, then leaves the rest to the next process. */
const SLICE_MS = 50_000;

/**
 * Continues evaluations that no process holds. Each run is made once, even if processes die: its id is derived from the evaluation and the
 * case. Safe to run at any time, on any host; returns when the runs that it started have ended.
 */
export async function continueEvals(deps: Deps, sliceMs = SLICE_MS): Promise<void> {
  const until = deps.clock.now() + sliceMs;
  const due = await Array.fromAsync(listDueEvals(deps));
  if (due.length === 0) return;
  // Loaded lazily: the clock finds nothing to do most of the time, and smaller functions start faster.
  const { workOn } = await import('./work.ts');
  await Promise.all(
    due.map((each) =>
      workOn(deps, each, until).catch((error: unknown) =>
        deps.log.error('evaluation not continued', { eval_id: each.id, error: String(error) }),
      ),
    ),
  );
}
