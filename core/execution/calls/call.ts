import { chargeIfRejected } from '#core/accounts/limits/cpu-budget.ts';
import type { RateLimit } from '#core/accounts/limits/rate-limit.ts';
import type { Deps } from '#core/ports/deps.ts';
import { LiveEvents } from '#core/runs/live-events.ts';
import { Trace } from '#core/runs/trace/trace.ts';
import type { TraceContents } from '#core/runs/trace/trace-content.ts';
import type { ProgressEvent } from '../engines/progress.ts';
import { admitCall } from './admit.ts';
import { ShownOutput } from './charge.ts';
import { type CallAnswer, finishCall } from './finish.ts';
import { type Call, type PreparedCall, prepareCall } from './prepare.ts';
import { runAgent } from './run-agent.ts';

/** A call whose run is recorded as running. Call `finish`, even if the client has disconnected. */
export interface StartedCall {
  /** Remaining calls of the plan; absent for calls that do not count. */
  readonly rateLimit?: RateLimit;
  /**
   * Runs the agent and records how the run ended. Throws the run's error if it failed. Calls `onSuccess` once a success
   * is
   * recorded, while the lease is released.
   */
  finish(emit?: (event: ProgressEvent) => void, onSuccess?: () => Promise<void>): Promise<CallAnswer>;
}

/**
 * Takes a call through its steps. The caller does the first one (`target.ts`), since requests, schedules and replays
 * find
 * their version in different ways.
 *
 * Throws what {@link prepareCall} and {@link admitCall} throw, and RATE_LIMITED for a workspace with too many rejected
 * calls;
 * in these cases there is no run.
 */
export async function startCall(deps: Deps, call: Call): Promise<StartedCall> {
  const [prepared, admitted] = await chargeIfRejected(deps, call.workspace, async () => {
    const checked = await prepareCall(deps, call);
    return [checked, await admitCall(deps, checked)] as const;
  });
  return {
    rateLimit: admitted.rateLimit,
    async finish(emit, onSuccess) {
      const { runId, workspace, receivedAt: startedAt, mask } = prepared;
      const live = new LiveEvents(deps, { workspaceId: workspace.id, runId, startedAt }, mask);
      const trace = new Trace(deps.clock, live.add, await contentsOf(prepared));
      const shown = new ShownOutput();
      const result = await runAgent(deps, prepared, { trace, live, shown, emit });
      trace.end();
      await live.end();
      return finishCall(deps, prepared, admitted, { result, trace, isShown: shown.isIn(result), onSuccess });
    },
  };
}

/** Finishes a call without a waiting client: the run's record shows how it ended. */
export function finishInBackground({ background }: Pick<Deps, 'background'>, started: StartedCall): void {
  background(started.finish().then(ignore, ignore));
}

/** Contents are only recorded for agents of the calling workspace: other callers may not see an author's prompts. */
async function contentsOf({ workspace, agent, mask }: PreparedCall): Promise<TraceContents | undefined> {
  const { traceContent = 'off' } = workspace;
  if (traceContent === 'off' || agent.workspaceId !== workspace.id) return undefined;
  // Loaded lazily: few workspaces record contents.
  const { TraceContents } = await import('#core/runs/trace/trace-content.ts');
  return new TraceContents(traceContent, mask);
}

const ignore = (): void => {};
