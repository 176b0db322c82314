import { chargeIfRejected } from '#core/accounts/limits/cpu-budget.ts';
import type { RateLimit } from '#core/accounts/limits/rate-limit.ts';
import { HELD_CALL_MS, MAX_WAIT_SECONDS } from '#core/base/time-limits.ts';
import { mayWait } from '#core/manifest/approval.ts';
import type { Deps } from '#core/ports/deps.ts';
import { LiveEvents } from '#core/runs/live-events.ts';
import { attemptOf } from '#core/runs/retries.ts';
import type { HeldBy } from '#core/runs/run.ts';
import { RunContinuesError } from '#core/runs/run-continues.ts';
import { type LiveTraceEvent, Trace } from '#core/runs/trace/trace.ts';
import type { TraceContents } from '#core/runs/trace/trace-content.ts';
import type { BeginJournal, DurableRun } from '../durable/durable-run.ts';
import type { EngineResult } from '../engines/engine.ts';
import type { ProgressEvent } from '../engines/progress.ts';
import { type Admitted, admitCall } from './admit.ts';
import { ShownOutput } from './charge.ts';
import { type CallAnswer, finishCall } from './finish.ts';
import { type Call, isDurable, type PreparedCall, prepareCall } from './prepare.ts';
import { runAgent } from './run-agent.ts';

/** A call whose run is recorded as running. Call `finish`, even if the client has disconnected. */
export interface StartedCall {
  /** Remaining calls of the plan; absent for calls that do not count. */
  readonly rateLimit?: RateLimit;
  /**
   * Epoch milliseconds from which a caller no longer waits for the end of the run: the run of a durable agent may take
   * hours. Absent for other agents.
   */
  readonly heldUntil?: number;
  /** The rule that keeps the run from beginning, for a run that waits for its turn: `finish` does not wait for its end. */
  readonly heldBy?: HeldBy;
  /** Returns the number of the last event of the run so far, in its event stream. */
  position(): Promise<number>;
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
 * Throws what {@link prepareCall}, {@link admitCall} and `admitInTurn` throw, and RATE_LIMITED for a workspace with too
 * many rejected calls; in these cases there is no run.
 *
 * @param beginJournal For a durable run that begins with the journal of another one.
 */
export async function startCall(deps: Deps, call: Call, beginJournal?: BeginJournal): Promise<StartedCall> {
  const [prepared, outcome] = await chargeIfRejected(deps, call.workspace, async () => {
    const checked = await prepareCall(deps, call);
    return [checked, await admitted(deps, call, checked, beginJournal)] as const;
  });
  const live = liveEventsOf(deps, prepared);
  return 'heldBy' in outcome
    ? heldCall(prepared, outcome.heldBy, live)
    : begunCall(deps, prepared, outcome.admitted, live);
}

async function admitted(
  deps: Deps,
  call: Call,
  prepared: PreparedCall,
  beginJournal: BeginJournal | undefined,
): Promise<{ readonly admitted: Admitted } | { readonly heldBy: HeldBy }> {
  if (prepared.turn === undefined) return { admitted: await admitCall(deps, prepared, { beginJournal }) };
  // Loaded lazily: few agents have such rules, and smaller functions start faster.
  const { admitInTurn } = await import('../queues/admit-in-turn.ts');
  return admitInTurn(deps, { call, prepared, beginJournal }, prepared.turn);
}

const heldCall = ({ runId }: PreparedCall, heldBy: HeldBy, live: LiveEvents): StartedCall => ({
  heldBy,
  position: () => live.position(),
  finish: () => Promise.reject(new RunContinuesError(runId, 'queue')),
});

function begunCall(deps: Deps, prepared: PreparedCall, admitted: Admitted, live: LiveEvents): StartedCall {
  return {
    rateLimit: admitted.rateLimit,
    ...(isDurable(prepared) && { heldUntil: heldUntil(prepared) }),
    position: () => live.position(),
    async finish(emit, onSuccess) {
      const { durable } = admitted;
      // Another process has more time for a run whose caller does not wait.
      if (durable !== undefined && prepared.isUnattended && deps.handOver?.startRun !== undefined) {
        await durable.leave();
        throw new RunContinuesError(prepared.runId, 'handover');
      }
      return finishStarted(deps, prepared, admitted, { emit, onSuccess, live });
    },
  };
}

function heldUntil({ agent, receivedAt }: PreparedCall): number {
  const { timeout_seconds: own } = agent.definition;
  return receivedAt + Math.min(HELD_CALL_MS, own > 0 ? own * 1000 : HELD_CALL_MS);
}

/** Begins the event stream of a run, after `past` events of other processes, if there were any. */
export const liveEventsOf = (
  deps: Deps,
  { runId, workspace, agent, receivedAt: startedAt, mask, isFollowed = false }: PreparedCall,
  past?: number,
): LiveEvents => {
  // They are all that is known of a run that waits.
  const waitMs = mayWait(agent.definition) ? MAX_WAIT_SECONDS * 1000 : 0;
  return new LiveEvents(deps, { workspaceId: workspace.id, runId, startedAt, waitMs, isFollowed }, mask, past);
};

interface RunOptions {
  readonly live: LiveEvents;
  readonly emit?: ((event: ProgressEvent) => void) | undefined;
  readonly onSuccess?: (() => Promise<void>) | undefined;
  /** Steps that other processes recorded, or earlier tries. */
  readonly past?: readonly LiveTraceEvent[] | undefined;
}

/**
 * Runs the agent of an admitted call and records how the run ended. Throws the run's error if it failed, and {@link
 * RunContinuesError} if a durable run has left this process before its end.
 */
export async function finishStarted(
  deps: Deps,
  prepared: PreparedCall,
  admitted: Admitted,
  options: RunOptions,
): Promise<CallAnswer> {
  try {
    return await runToEnd(deps, prepared, admitted, options);
  } finally {
    admitted.durable?.rest();
  }
}

async function runToEnd(
  deps: Deps,
  prepared: PreparedCall,
  admitted: Admitted,
  { emit, onSuccess, live, past }: RunOptions,
): Promise<CallAnswer> {
  const { durable, record } = admitted;
  const attempt = record.retries && attemptOf(record.retries);
  const trace = new Trace(deps.clock, live.add, await contentsOf(prepared), past);
  const shown = new ShownOutput();
  const result = await runAgent(deps, prepared, { trace, live, shown, emit, durable, attempt, turn: record.session });
  const { continues } = result;
  trace.end({ isInterrupted: continues !== undefined && continues.until === undefined });
  await live.end({ isOver: continues === undefined });
  if (continues !== undefined && durable !== undefined) {
    await leaveRun(prepared, admitted, durable, continues);
    throw new RunContinuesError(prepared.runId, continues.departure);
  }
  return finishCall(deps, prepared, admitted, { result, trace, isShown: shown.isIn(result), onSuccess });
}

/** Lets a durable run wait, or gives it to another process. A run that waits holds no place. */
async function leaveRun(
  { wantedDeadline = Number.POSITIVE_INFINITY, lineage }: PreparedCall,
  { record, releasePlaces }: Admitted,
  durable: DurableRun,
  { departure, until }: NonNullable<EngineResult['continues']>,
): Promise<void> {
  const dueAt = Math.min(until ?? 0, wantedDeadline, lineage.deadline ?? wantedDeadline);
  if (departure === 'wait' && (await durable.wait(record, dueAt))) await releasePlaces();
  else await durable.leave({ departure, until });
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
