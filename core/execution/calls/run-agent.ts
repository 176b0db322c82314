import { grantRevisions } from '#core/accounts/grants/rights.ts';
import { isPlatformError, type PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { lazy } from '#core/base/lazy.ts';
import { engineTraits } from '#core/manifest/engines.ts';
import { fillToolCommand, validateInRun } from '#core/manifest/worker-pool/checks.ts';
import type { Deps } from '#core/ports/deps.ts';
import { watchForCancel } from '#core/runs/cancellation.ts';
import type { Lease } from '#core/runs/leases.ts';
import type { LiveEvents } from '#core/runs/live-events.ts';
import { momentView, type ScheduledMoment } from '#core/runs/run.ts';
import type { TurnOfRun } from '#core/runs/sessions/session.ts';
import type { Trace } from '#core/runs/trace/trace.ts';
import type { DurableRun } from '../durable/durable-run.ts';
import type { EngineResult, EngineRun, SessionOfRun } from '../engines/engine.ts';
import { isInterruption } from '../engines/interruption.ts';
import type { ProgressEvent } from '../engines/progress.ts';
import { runEngine } from '../engines/run-engine.ts';
import { skillEnvironment, skillFiles } from '../skills/skill-files.ts';
import { foreignAgents } from '../sub-calls/lineage.ts';
import { contextEnvironment } from '../sub-calls/run-context.ts';
import type { ShownOutput } from './charge.ts';
import type { PreparedCall, SaidBefore } from './prepare.ts';
import { ownerOfChecks } from './schema-checks.ts';
import { secretEnvironment } from './secrets.ts';

/** Loaded lazily: few runs belong to a session, and smaller functions start faster. */
const runSession = lazy(() => import('../sessions/session-of-run.ts'));

/** Delay before the next attempt of a run that found no sandbox. */
const RETRY_MS = 1000;

/**
 * Runs the agent of an admitted call until it ends or is cancelled. If no sandbox is available, the run is retried
 * until
 * `mayBeginUntil`. If the sandbox is lost and the manifest allows it, the run is retried once; only this process knows
 * of
 * the second attempt, so it dies with the process. Never throws.
 */
export async function runAgent(
  deps: Deps,
  call: PreparedCall,
  {
    trace,
    live,
    shown,
    emit,
    durable,
    attempt: tryNumber,
    turn,
  }: {
    readonly trace: Trace;
    readonly live?: Pick<LiveEvents, 'add'>;
    readonly shown?: Pick<ShownOutput, 'note'>;
    /** Sends progress to the calling client. */
    readonly emit?: ((event: ProgressEvent) => void) | undefined;
    readonly durable?: DurableRun | undefined;
    /** Number of the try, from 1, for a run with a retry policy. */
    readonly attempt?: number | undefined;
    /** The run's turn in its session. */
    readonly turn?: TurnOfRun | undefined;
  },
): Promise<EngineResult> {
  const { runId, workspace, lineage, agent, mask, skills, issued } = call;
  const cancellation = watchForCancel(deps, workspace.id, { id: runId, parentRunId: lineage.parentRunId });
  const owner = ownerOfChecks(agent, workspace);
  const { hasSandbox, hasProgram } = engineTraits(agent);
  const run: EngineRun = {
    runId,
    workspaceId: workspace.id,
    agent,
    validate: (schema, value) => validateInRun(deps, owner, schema, value),
    fillCommand: (command, values) => fillToolCommand(deps, owner, command, values),
    input: { ...call.input, document: call.document },
    promptFiles: call.promptFiles,
    skills,
    models: call.models,
    isStrict: issued?.context.isStrict ?? false,
    files: hasSandbox ? skillFiles(skills) : [],
    env: {},
    mask,
    deadline: call.deadline,
    signal: durable === undefined ? cancellation.signal : AbortSignal.any([cancellation.signal, durable.leaving]),
    isSubCall: lineage.parentRunId !== undefined,
    isWatched: emit !== undefined || call.isFollowed === true,
    kind: async () => [
      call.tenantId ?? null,
      agent.definition.workspace ? (turn?.sessionId ?? null) : null,
      await grantRevisions(deps, workspace.id, foreignAgents(agent, workspace, lineage)),
    ],
    emit: (event) => {
      shown?.note(event);
      live?.add('progress', event);
      emit?.(mask.json(event as Json) as unknown as ProgressEvent);
    },
    trace,
    traceHeaders: call.tracing?.headers,
    // Loaded lazily: few loops have this tool, and smaller functions start faster.
    later: async (order) => (await import('../durable/own-later.ts')).runOwnLater(deps, call, order),
    countRemote: async (name) => (await import('../sub-calls/remote-call.ts')).countRemoteCall(deps, call, name),
    search: call.search,
    // Loaded lazily, too.
    memory: async () => (await import('./run-memory.ts')).memoryOf(deps, call),
    durable,
  };
  const current: Continuation = durable?.lease ?? { attempt: tryNumber ?? 1, reason: 'retry' };
  if (current.attempt > 1 && current.reason !== 'look') noteContinuation(run, current);
  const hasSteps = agent.definition.durable?.steps === true;
  const mayRepeat = agent.definition.retry_on_interruption === true;
  // What a program has done in steps is not done again. A step in progress is, so its sandbox is no cheaper one.
  const isRetried = mayRepeat || hasSteps;
  const begin = (attempt: 1 | 2) => {
    const deadline = Math.min(call.deadline, deps.clock.now() + call.timeoutMs);
    const ownEnv = hasSandbox ? ownEnvironment(deps, call, deadline) : {};
    const isCounted = isRetried || durable !== undefined || tryNumber !== undefined;
    if (isCounted) ownEnv.PLATFORM_ATTEMPT = String(current.attempt + attempt - 1);
    // Other processes may only have looked at the program.
    if (durable !== undefined && hasProgram) ownEnv.PLATFORM_ATTEMPT = String(durable.journal.begun);
    if (hasSteps) ownEnv.PLATFORM_RUN_ID = runId;
    if (turn !== undefined && hasSandbox) ownEnv.PLATFORM_SESSION_ID = turn.sessionId;
    const env = hasSandbox ? { ...sharedEnvironment(call), ...ownEnv } : {};
    const isInterruptible = mayRepeat && attempt === 1 && call.isUnattended === true;
    return runEngine(deps, { ...run, isInterruptible, deadline, env, ownEnv, session });
  };
  const attempt = async (number: 1 | 2): Promise<EngineResult> => {
    let result = await begin(number);
    while (foundNoSandbox(result) && deps.clock.now() < (call.mayBeginUntil ?? 0) && !cancellation.signal.aborted) {
      await deps.clock.sleep(RETRY_MS * (0.5 + Math.random()), cancellation.signal).catch(() => {});
      result = await begin(number);
    }
    return result;
  };
  const noteInterruption = (payload: { readonly attempt: number; readonly begins_again: boolean }): void => {
    trace.end({ isInterrupted: true });
    trace.add({ event_type: 'interrupted', payload });
    deps.log.warn('run interrupted', { run_id: runId, ...payload });
  };
  let session = call.earlier && ownHistory(runId, call.earlier);
  try {
    if (turn !== undefined) {
      const { sessionOfRun } = await runSession();
      try {
        session = await sessionOfRun(deps, call, turn, cancellation.signal);
      } catch (error) {
        if (!isPlatformError(error)) throw error;
        return failedBefore(error);
      }
    }
    const first = await attempt(1);
    if (!isInterruption(first.error))
      return session === undefined ? first : await withState(deps, runId, session, first);
    const beginsAgain = isRetried && deps.clock.now() < call.deadline && !cancellation.signal.aborted;
    noteInterruption({ attempt: 1, begins_again: beginsAgain });
    if (!beginsAgain) return await withState(deps, runId, session, first);
    run.emit({ type: 'interrupted', attempt: 2 });
    const second = await attempt(2);
    if (isInterruption(second.error)) noteInterruption({ attempt: 2, begins_again: false });
    const all = { ...second, executionMs: first.executionMs + second.executionMs };
    return await withState(deps, runId, session, all);
  } finally {
    cancellation.stop();
  }
}

/** Stores what a run gives to the next message of its session. If that fails, the session keeps what it had. */
async function withState(
  { log }: Pick<Deps, 'log'>,
  runId: string,
  session: SessionOfRun | undefined,
  result: EngineResult,
): Promise<EngineResult> {
  if (session?.keep === undefined || result.continues !== undefined) return result;
  const { conversation, files, ...rest } = result;
  try {
    const state = await session.keep({ conversation, ...(files && { files }) });
    return { ...rest, ...(state && { state }) };
  } catch (error) {
    log.error('state of a session not kept', { run_id: runId, error: String(error) });
    return rest;
  }
}
/** Returns what a caller says was said before, as if it were a session of this run alone. */
const ownHistory = (id: string, { turns, leftOut }: SaidBefore): SessionOfRun => ({
  id,
  number: leftOut + turns.length + 1,
  turns: turns.map((turn, index) => ({ ...turn, number: leftOut + index + 1, runId: id })),
  leftOut,
});

/** The result of a run that failed before its agent began. */
const failedBefore = (error: PlatformError): EngineResult => ({
  warnings: [],
  error,
  stdout: '',
  stderr: '',
  exitCode: null,
  executionMs: 0,
});

type Continuation = Pick<Lease, 'attempt' | 'reason'>;

function noteContinuation({ trace, emit }: EngineRun, { attempt, reason }: Continuation): void {
  const hasWaited = reason === 'timeout' || reason === 'decision' || reason === 'turn';
  if (!hasWaited) {
    trace.add({ event_type: 'interrupted', payload: { attempt: attempt - 1, begins_again: true, reason } });
  }
  emit({ type: 'resumed', attempt, reason });
}

/** Whether nothing has run: a loop that has asked its model has spent something. */
const foundNoSandbox = ({ error, usage }: EngineResult): boolean =>
  error?.code === 'RATE_LIMITED' && usage === undefined;

/** Variables that another run of the same agent for the same caller would have, too. */
const sharedEnvironment = ({ secrets, input, skills, service }: PreparedCall): Record<string, string> => ({
  ...service?.env,
  ...secretEnvironment(secrets, input.llmCredentials),
  ...skillEnvironment(skills),
});

const ownEnvironment = (
  { gatewayUrl }: Pick<Deps, 'gatewayUrl'>,
  { issued, scheduled, tracing }: PreparedCall,
  deadline: number,
): Record<string, string> => ({
  ...(scheduled && momentEnvironment(scheduled)),
  ...tracing?.environment,
  ...(issued && contextEnvironment(issued, { gatewayUrl, deadline })),
});

function momentEnvironment(scheduled: ScheduledMoment): Record<string, string> {
  const entries = Object.entries(momentView(scheduled));
  return Object.fromEntries(entries.map(([name, value]) => [`PLATFORM_${name.toUpperCase()}`, value]));
}
