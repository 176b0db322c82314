import { hasEnded } from '#core/base/run-kinds.ts';
import { takePlace } from '#core/events/watchers.ts';
import type { ProgressEvent } from '#core/execution/engines/progress.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Approval } from '#core/runs/approvals/approval.ts';
import { liveEventsOf } from '#core/runs/live-events.ts';
import type { Run } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { openQuestions } from '../questions.ts';

/** Pause between two looks at the record of the run, doubled for each further one. */
const LOOK_MS = { first: 50, max: 1000 };

/** How a run stands for a client that waits for it. */
export type Followed =
  | { readonly is: 'over'; readonly run: Run }
  /** It waits for people. */
  | { readonly is: 'asking'; readonly open: readonly Approval[] }
  | { readonly is: 'underWay' };

interface FollowOptions {
  /** Epoch milliseconds until which the client waits. */
  readonly until: number;
  /** Ends the wait when the client has left. */
  readonly signal: AbortSignal;
  /** The workspace of the caller: one that waits takes a place among its open streams. */
  readonly callerWorkspaceId: string;
  /** Gets the progress of the run after event number `after`. @default - nobody wants it */
  readonly emit?: ((event: ProgressEvent) => void) | undefined;
  /** @default 0 */
  readonly after?: number;
}

type FollowDeps = Pick<Deps, 'runs' | 'counters' | 'blobs' | 'clock' | 'config' | 'ids' | 'watching'>;

interface Place {
  readonly workspaceId: string;
  readonly runId: string;
}

/**
 * Waits until a run that continues in another process has ended or asks people. Throws RATE_LIMITED if the workspace of the caller
 * waits for too many.
 */
export async function follow(deps: FollowDeps, place: Place, options: FollowOptions): Promise<Followed> {
  const { clock, watching } = deps;
  const { until, callerWorkspaceId } = options;
  const signal = watching ? AbortSignal.any([options.signal, watching.closing]) : options.signal;
  const look = lookerAt(deps, place, options);
  const first = await look();
  if (first.is !== 'underWay') return first;
  const giveBack = await takePlace(deps, callerWorkspaceId);
  try {
    for (let pause = LOOK_MS.first; ; pause = Math.min(2 * pause, LOOK_MS.max)) {
      await clock.sleep(Math.min(pause, Math.max(0, until - clock.now())), signal).catch(() => {});
      const now = await look();
      if (now.is !== 'underWay' || clock.now() >= until || signal.aborted) return now;
    }
  } finally {
    await giveBack().catch(() => {});
  }
}

function lookerAt(deps: FollowDeps, place: Place, { emit, after = 0 }: FollowOptions): () => Promise<Followed> {
  const runs = new RunStore(deps, place.workspaceId);
  let last = after;
  return async () => {
    // Read before the events, because a run writes all events before its end.
    const run = await runs.find(place.runId);
    if (emit !== undefined) {
      for await (const { number, type, data } of liveEventsOf(deps, place, last)) {
        last = number;
        if (type === 'progress') emit(data as unknown as ProgressEvent);
      }
    }
    if (run !== undefined && hasEnded(run.status)) return { is: 'over', run };
    const open = run?.status === 'waiting' ? await openQuestions(deps, place) : [];
    return open.length > 0 ? { is: 'asking', open } : { is: 'underWay' };
  };
}
