import type { Deps } from '../deps.ts';
import { PlatformError } from '../errors.ts';
import type { Clock } from '../ports/clock.ts';
import { CANCELLED, RunStore } from './store.ts';

/** The record is looked at this often, from then on: short runs cost nothing, and long ones end within a second. */
const POLL_MS = 400;

type CancelDeps = Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config'>;

/** What is known of a run before anything of it happens. */
interface BegunRun {
  readonly id: string;
  readonly parentRunId?: string;
}

/** The runs of this process that can be cancelled. A run of another process is told by its record. */
export class Cancellations {
  readonly #running = new Map<string, AbortController>();

  /** The signal of a run that is recorded. It ends with RUN_CANCELLED, or is of no use any more after `stop`. */
  watch(deps: CancelDeps, workspaceId: string, run: BegunRun): { signal: AbortSignal; stop(): void } {
    const controller = new AbortController();
    const ended = new AbortController();
    this.#running.set(run.id, controller);
    void poll(deps, workspaceId, run, controller, ended.signal);
    return {
      signal: controller.signal,
      stop: () => {
        ended.abort(RUN_ENDED);
        this.#running.delete(run.id);
      },
    };
  }

  /** Ends a run and all that it called, directly or not. False when it has ended already. */
  async cancel(deps: CancelDeps, workspaceId: string, runId: string): Promise<boolean> {
    const runs = new RunStore(deps, workspaceId);
    const run = await runs.find(runId);
    if (run?.status !== 'running' || !(await this.#end(runs, runId))) return false;
    const ended = new Set([runId]);
    // Whoever is called meanwhile either finds his caller's mark, or is found here: each writes first, and then reads.
    for (;;) {
      const callers = await runs.callers(run.rootRunId);
      const below = [...callers.keys()].filter((id) => !ended.has(id) && isBelow(id, runId, callers));
      if (below.length === 0) return true;
      await Promise.all(below.map((id) => this.#end(runs, id)));
      for (const id of below) ended.add(id);
    }
  }

  async #end(runs: RunStore, runId: string): Promise<boolean> {
    const isMarked = await runs.requestCancel(runId);
    this.#running.get(runId)?.abort(cancelled());
    return isMarked;
  }
}

/** Nobody sees it; without a reason, `abort` makes an error with a stack. */
export const RUN_ENDED = 'the run has ended';

const cancelled = (): PlatformError => new PlatformError(CANCELLED.errorCode, CANCELLED.errorMessage);

/** `callers` tells who called whom. */
function isBelow(runId: string, topId: string, callers: ReadonlyMap<string, string>): boolean {
  for (let caller = callers.get(runId); caller !== undefined; caller = callers.get(caller)) {
    if (caller === topId) return true;
  }
  return false;
}

async function poll(
  deps: CancelDeps,
  workspaceId: string,
  { id, parentRunId }: BegunRun,
  controller: AbortController,
  ended: AbortSignal,
): Promise<void> {
  const runs = new RunStore(deps, workspaceId);
  // A table that cannot be read now can be read the next time.
  const isCancelled = (runId: string) => runs.isCancelled(runId).catch(() => false);
  if (parentRunId !== undefined && (await isCancelled(parentRunId))) return controller.abort(cancelled());
  while (await slept(deps.clock, ended)) {
    if (await isCancelled(id)) return controller.abort(cancelled());
  }
}

const slept = (clock: Clock, ended: AbortSignal): Promise<boolean> =>
  clock.sleep(POLL_MS, ended).then(
    () => true,
    () => false,
  );
