import type { Clock } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { cancelledError } from './run.ts';
import { RunStore } from './store.ts';

/** The record is looked at this often, from then on: short runs cost nothing, and long ones end within a second. */
const POLL_MS = 400;

type CancelDeps = Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config' | 'runSignals'>;

/** What is known of a run before anything of it happens. */
interface RecordedRun {
  readonly id: string;
  readonly parentRunId?: string;
}

/**
 * The signal of a run that is recorded: it aborts with RUN_CANCELLED when the run is cancelled, here or in any other
 * process. Call `stop` when the run has ended.
 */
export function watchForCancel(
  deps: CancelDeps,
  workspaceId: string,
  run: RecordedRun,
): { signal: AbortSignal; stop(): void } {
  const controller = deps.runSignals.open(run.id);
  const ended = new AbortController();
  void poll(deps, workspaceId, run, controller, ended.signal);
  return {
    signal: controller.signal,
    stop: () => {
      ended.abort(RUN_ENDED);
      deps.runSignals.close(run.id);
    },
  };
}

/** Cancels a run and all that it called, directly or not. Returns false if it has ended already. */
export async function cancelRun(deps: CancelDeps, workspaceId: string, runId: string): Promise<boolean> {
  const runs = new RunStore(deps, workspaceId);
  const run = await runs.find(runId);
  if (run?.status !== 'running' || !(await cancelOne(deps, runs, runId))) return false;
  const done = new Set([runId]);
  // A run that is called meanwhile either finds its caller's mark or is found here: each writes first, and then reads.
  for (;;) {
    const callers = await runs.callers(run.rootRunId);
    const below = [...callers.keys()].filter((id) => !done.has(id) && isBelow(id, runId, callers));
    if (below.length === 0) return true;
    await Promise.all(below.map((id) => cancelOne(deps, runs, id)));
    for (const id of below) done.add(id);
  }
}

async function cancelOne(deps: CancelDeps, runs: RunStore, runId: string): Promise<boolean> {
  const isMarked = await runs.requestCancel(runId);
  deps.runSignals.abort(runId, cancelledError());
  return isMarked;
}

/** Nobody sees it; without a reason, `abort` makes an error with a stack. */
export const RUN_ENDED = 'the run has ended';

/** `callers` tells who called whom. */
function isBelow(runId: string, topId: string, callers: ReadonlyMap<string, string>): boolean {
  for (let caller = callers.get(runId); caller !== undefined; caller = callers.get(caller)) {
    if (caller === topId) return true;
  }
  return false;
}

async function poll(
  deps: Omit<CancelDeps, 'runSignals'>,
  workspaceId: string,
  { id, parentRunId }: RecordedRun,
  controller: AbortController,
  ended: AbortSignal,
): Promise<void> {
  const runs = new RunStore(deps, workspaceId);
  // A table that cannot be read now can be read the next time.
  const isCancelled = (runId: string) => runs.isCancelled(runId).catch(() => false);
  if (parentRunId !== undefined && (await isCancelled(parentRunId))) return controller.abort(cancelledError());
  while (await slept(deps.clock, ended)) {
    if (await isCancelled(id)) return controller.abort(cancelledError());
  }
}

const slept = (clock: Clock, ended: AbortSignal): Promise<boolean> =>
  clock.sleep(POLL_MS, ended).then(
    () => true,
    () => false,
  );
