import { hasEnded } from '#core/base/run-kinds.ts';
import type { Deps } from '#core/ports/deps.ts';
import { CANCELLED, cancelledError, type NewRun } from './run.ts';
import { RunStore } from './store.ts';

/**
 * Delay before the first read of the record, doubled for each further read: short runs cost no read, long ones about
 * one
 * read per second, and each run ends about a second after it is cancelled.
 */
const POLL_MS = { first: 400, max: 1000 };

const END_WAIT_MS = 3000;
const END_POLL_MS = 50;

/** Pause before the next look at a run whose status is just changing. */
const CHANGING_MS = 50;

export type CancelDeps = Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config' | 'runSignals' | 'wakeRun'>;

/** Identifies a run that is already recorded. */
interface RecordedRun {
  readonly id: string;
  readonly parentRunId?: string;
}

/**
 * Returns a signal that aborts with RUN_CANCELLED when the run is cancelled, in this process or another. Call `stop` when
 * the run has ended.
 */
export function watchForCancel(
  deps: CancelDeps,
  workspaceId: string,
  run: RecordedRun,
): { signal: AbortSignal; stop(): void } {
  const controller = deps.runSignals.open(run.id);
  const stopPolling = poll(deps, workspaceId, run, controller);
  return {
    signal: controller.signal,
    stop: () => {
      stopPolling();
      deps.runSignals.close(run.id);
    },
  };
}

/** Cancels a run and all sub-calls below it; one that waits for its time ends at once. Returns false if the run has already ended. */
export async function cancelRun(deps: CancelDeps, workspaceId: string, runId: string): Promise<boolean> {
  const runs = new RunStore(deps, workspaceId);
  const run = await runs.find(runId);
  if (run === undefined || !(await cancelOne(deps, workspaceId, runId))) return false;
  const done = new Set([runId]);
  // Both sides write before they read, so a concurrent sub-call either sees its caller's mark or is found here.
  for (;;) {
    const callers = await runs.callers(run.rootRunId);
    const below = [...callers.keys()].filter((id) => !done.has(id) && isBelow(id, runId, callers));
    if (below.length === 0) return true;
    await Promise.all(below.map((id) => cancelOne(deps, workspaceId, id)));
    for (const id of below) done.add(id);
  }
}

/** Waits a short time for a cancelled run to end; its host may have died. */
export async function waitForEnd(
  { clock }: Pick<Deps, 'clock'>,
  runs: Pick<RunStore, 'find'>,
  runId: string,
): Promise<void> {
  const giveUpAt = clock.now() + END_WAIT_MS;
  while (clock.now() < giveUpAt && !hasEnded((await runs.find(runId))?.status ?? 'cancelled')) {
    await clock.sleep(END_POLL_MS);
  }
}

/** Whether a run below this one was cancelled; if this one was not, that run was cancelled on its own. */
export async function hasCancelledBelow(
  deps: Omit<CancelDeps, 'runSignals'>,
  workspaceId: string,
  { id, rootRunId = id }: Pick<NewRun, 'id' | 'rootRunId'>,
): Promise<boolean> {
  const runs = new RunStore(deps, workspaceId);
  const callers = await runs.callers(rootRunId);
  const below = [...callers.keys()].filter((each) => isBelow(each, id, callers));
  return (await Promise.all(below.map((each) => runs.isCancelled(each)))).includes(true);
}

/** Cancels one run: it ends at once, or is marked for the process that has it. Returns false if it has ended. */
async function cancelOne(deps: CancelDeps, workspaceId: string, runId: string): Promise<boolean> {
  const runs = new RunStore(deps, workspaceId);
  for (;;) {
    const isMarked = await runs.requestCancel(runId);
    deps.runSignals.abort(runId, cancelledError());
    if (isMarked) return true;
    const status = (await runs.find(runId))?.status ?? 'cancelled';
    if (hasEnded(status)) return false;
    // Loaded lazily: few runs wait, and smaller functions start faster.
    const { WaitingRuns } = await import('./waiting-runs.ts');
    const waiting = new WaitingRuns(deps, workspaceId);
    if (status === 'queued' && (await waiting.end(runId, CANCELLED))) return true;
    if (await waiting.requestCancel(runId)) {
      // A process takes it up, and ends it.
      await deps.wakeRun?.({ workspaceId, runId });
      return true;
    }
    // It changes at this moment.
    await deps.clock.sleep(CHANGING_MS);
  }
}

/** `callers` maps each sub-call to its caller. */
function isBelow(runId: string, topId: string, callers: ReadonlyMap<string, string>): boolean {
  for (let caller = callers.get(runId); caller !== undefined; caller = callers.get(caller)) {
    if (caller === topId) return true;
  }
  return false;
}

/** Polls the cancellation marks of a run and, once, of its caller. Call the result to stop. */
function poll(
  deps: Omit<CancelDeps, 'runSignals'>,
  workspaceId: string,
  { id, parentRunId }: RecordedRun,
  controller: AbortController,
): () => void {
  const runs = new RunStore(deps, workspaceId);
  let isOver = false;
  let cancelTimer = (): void => {};
  let pause = POLL_MS.first;
  const look = async (runId: string): Promise<void> => {
    // A failed read counts as not cancelled: the next read may succeed.
    const isCancelled = await runs.isCancelled(runId).catch(() => false);
    if (isOver) return;
    if (isCancelled) controller.abort(cancelledError());
    else wait();
  };
  const wait = (): void => {
    cancelTimer = deps.clock.after(pause, () => void look(id));
    pause = Math.min(2 * pause, POLL_MS.max);
  };
  if (parentRunId === undefined) wait();
  else void look(parentRunId);
  return () => {
    isOver = true;
    cancelTimer();
  };
}
