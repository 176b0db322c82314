import type { Deps } from '../deps.ts';
import { PlatformError } from '../errors.ts';
import type { Clock } from '../ports/clock.ts';
import { RunStore } from './store.ts';

/** The record is looked at this often, from then on: short runs cost nothing, and long ones end within a second. */
const POLL_MS = 400;

type CancelDeps = Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config'>;

/** The runs of this process that can be cancelled. A run of another process is told by its record. */
export class Cancellations {
  readonly #running = new Map<string, AbortController>();

  /** The signal of a run that begins here. It ends with RUN_CANCELLED, or is of no use any more after `stop`. */
  watch(deps: CancelDeps, workspaceId: string, runId: string): { signal: AbortSignal; stop(): void } {
    const controller = new AbortController();
    const ended = new AbortController();
    this.#running.set(runId, controller);
    void poll(deps, workspaceId, runId, controller, ended.signal);
    return {
      signal: controller.signal,
      stop: () => {
        ended.abort();
        this.#running.delete(runId);
      },
    };
  }

  /** Ends a run and all that it called. False when it has ended already. */
  async cancel(deps: CancelDeps, workspaceId: string, runId: string): Promise<boolean> {
    const runs = new RunStore(deps, workspaceId);
    const run = await runs.find(runId);
    if (run?.status !== 'running') return false;
    const tree = await runs.tree(run.rootRunId);
    const below = new Set([runId]);
    // Oldest first: whoever called stands before whom it called.
    for (const { id, parentRunId } of tree) if (parentRunId !== null && below.has(parentRunId)) below.add(id);
    const marked = await Promise.all(
      [...below].map(async (id) => {
        const isMarked = await runs.requestCancel(id);
        this.#running.get(id)?.abort(cancelled());
        return isMarked;
      }),
    );
    return marked[0]!;
  }
}

const cancelled = (): PlatformError => new PlatformError('RUN_CANCELLED', 'The run was cancelled.');

async function poll(
  deps: CancelDeps,
  workspaceId: string,
  runId: string,
  controller: AbortController,
  ended: AbortSignal,
): Promise<void> {
  const runs = new RunStore(deps, workspaceId);
  while (await slept(deps.clock, ended)) {
    // A table that cannot be read now can be read the next time.
    if (await runs.isCancelled(runId).catch(() => false)) return controller.abort(cancelled());
  }
}

const slept = (clock: Clock, ended: AbortSignal): Promise<boolean> =>
  clock.sleep(POLL_MS, ended).then(
    () => true,
    () => false,
  );
