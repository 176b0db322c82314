import type { Deps } from '../deps.ts';
import { listOpenRuns, RunStore } from './store.ts';

/** A host may need this long past the deadline to write down how a run ended. */
const LOST_AFTER_MS = 30_000;

/**
 * Finishes the runs whose host died, so that records and usage agree: those past their deadline, or all that are open
 * when `all` says that no other process can have any. Answers how many there were. Safe to run anywhere, at any time.
 */
export async function sweepLostRuns(
  deps: Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config' | 'log'>,
  { all = false }: { readonly all?: boolean } = {},
): Promise<number> {
  const before = all ? Date.UTC(9999, 0) : deps.clock.now() - LOST_AFTER_MS;
  let count = 0;
  for await (const { workspaceId, run } of listOpenRuns(deps, before)) {
    const runs = new RunStore(deps, workspaceId);
    const body = await runs.body(run.id);
    const isLost = await runs.finish(run, {
      status: 'failed',
      input: body?.input ?? null,
      output: null,
      stdout: '',
      stderr: '',
      trace: [],
      executionMs: null,
      exitCode: null,
      errorCode: 'INTERNAL_ERROR',
      errorMessage: 'The platform stopped while this run was under way.',
      creditsCents: 0,
    });
    if (!isLost) continue;
    count++;
    deps.log.warn('run lost', { run_id: run.id });
  }
  return count;
}
