import { isUsedUp } from '#core/accounts/limits/rate-limit.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { isHostBusy, isPlatformError, isRefusedByRule, PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { type StartedCall, startCall } from '#core/execution/calls/call.ts';
import type { CallAnswer } from '#core/execution/calls/finish.ts';
import { answerWhileHeld } from '#core/execution/calls/held-answer.ts';
import type { Call } from '#core/execution/calls/prepare.ts';
import { checkDeprecation } from '#core/execution/calls/target.ts';
import { topOfChain } from '#core/execution/sub-calls/lineage.ts';
import type { QueueRules } from '#core/manifest/queue-rules.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Item } from '#core/ports/table.ts';
import { endedWith, type Run } from '#core/runs/run.ts';
import { versionToRun } from '../changes/follow-versions.ts';
import { noteLackingGrants } from '../changes/grants.ts';
import type { Schedule, ScheduleInput } from '../schedule.ts';
import { type ScheduleChange, ScheduleStore } from '../store.ts';
import { changeEndedSchedule, countEndedRun, countMissedRun, noteSuccess } from './ended-runs.ts';
import { type OpenScheduleRun, openRunOperation, sendHeartbeat } from './open-runs.ts';
import { recordRefusedRun } from './refused-runs.ts';

/** Response body for a trigger or a webhook. */
export interface ScheduleRunAnswer {
  readonly run_id: string;
  /** `queued`: the run is not over; its record will show its end. */
  readonly status: 'success' | 'error' | 'timeout' | 'queued';
  readonly duration_ms: number;
  readonly output: Json;
  readonly error: string | null;
}

interface RunSettings extends Pick<Call, 'trace'> {
  readonly input: ScheduleInput;
  /** Scheduled time of the run in epoch milliseconds. */
  readonly scheduledAt?: number | undefined;
  /** Epoch milliseconds until which the run may wait for capacity. */
  readonly waitUntil: number;
  /** Called once the run is recorded and reaches its agent, or has to wait for capacity. */
  readonly onStarted?: (() => void) | undefined;
}

/** Approximate retry interval for calls rejected by the workspace's concurrency limit. */
const RETRY_MS = 1000;
/**
 * Runs a schedule now, with `input` instead of its own, and waits for the end. A run that could not start is recorded
 * as failed. Returns `undefined` if the schedule was deleted in the meantime.
 *
 * @param item The item of the schedule if it was already read, which saves a read.
 * @param mayBePrevented See {@link openRunOperation}.
 * @param check Throws if the schedule, as it is when the run begins, may not run.
 */
export async function runNow(
  deps: Deps,
  schedule: Schedule,
  {
    runId,
    source,
    input,
    scheduledAt,
    item,
    mayBePrevented = false,
    check,
    ...trace
  }: {
    runId: string;
    source: 'manual' | 'webhook';
    input: ScheduleInput;
    scheduledAt?: number;
    item?: Item;
    mayBePrevented?: boolean;
    check?: (schedule: Schedule) => void;
  } & Pick<Call, 'trace'>,
): Promise<ScheduleRunAnswer | undefined> {
  const { id: scheduleId, workspaceId } = schedule;
  const run: OpenScheduleRun = { scheduleId, workspaceId, runId, source };
  const begin = (current: Schedule): ScheduleChange | undefined => {
    if (current.deletedAt !== null) return undefined;
    check?.(current);
    return beginRunChange(deps, current, run, mayBePrevented);
  };
  const begun = await new ScheduleStore(deps, workspaceId).change(scheduleId, begin, item);
  return begun && executeRun(deps, begun, run, { input, scheduledAt, ...trace });
}

/** Builds the answer of {@link runNow} from the record of an ended run. */
export const answerFromRun = (
  { id, status, durationMs, errorMessage }: Run,
  output: Json | null,
): ScheduleRunAnswer => ({
  run_id: id,
  status: answerStatus(status),
  duration_ms: durationMs ?? 0,
  output,
  error: errorMessage,
});

const answerStatus = (status: Run['status']): ScheduleRunAnswer['status'] =>
  status === 'completed' ? 'success' : status === 'timeout' ? 'timeout' : 'error';

/** Returns the change that begins a run. Once it is written, {@link executeRun} runs the agent. */
export function beginRunChange(
  { clock }: Pick<Deps, 'clock'>,
  schedule: Schedule,
  run: OpenScheduleRun,
  mayBePrevented = false,
): ScheduleChange {
  const now = clock.now();
  return {
    set: {
      runCount: schedule.runCount + 1,
      lastRunAt: isoTime(now),
      lastRunId: run.runId,
      lastRunStatus: 'running',
    },
    alongside: [openRunOperation(run, now, mayBePrevented)],
  };
}

/**
 * Runs the agent of a run that has begun, and counts its end. Throws only for a fault of the platform; the sweep then
 * recovers the run.
 */
export async function executeRun(
  deps: Deps,
  schedule: Schedule,
  run: OpenScheduleRun,
  {
    input = schedule.input,
    scheduledAt = run.scheduledFor,
    waitUntil = 0,
    onStarted,
    ...trace
  }: Partial<RunSettings> = {},
): Promise<ScheduleRunAnswer> {
  const startedAt = deps.clock.now();
  let answer: CallAnswer | undefined;
  let failure: PlatformError | undefined;
  let call: StartedCall | undefined;
  let success: 'counted' | 'changes schedule' | undefined;
  try {
    call = await startWhenAdmitted(deps, schedule, run, { input, scheduledAt, waitUntil, onStarted, ...trace });
    onStarted?.();
    const work = call.finish(undefined, async () => {
      success = (await noteSuccess(deps, run)) ? 'counted' : 'changes schedule';
    });
    deps.background(work.then(ignore, ignore));
    const isAnswered = run.source !== 'schedule';
    answer = await answerWhileHeld(deps, isAnswered ? call : { heldUntil: Number.POSITIVE_INFINITY }, work);
    // The sweep counts the run once it has ended.
    if (answer === undefined) return unfinished(run.runId, deps.clock.now() - startedAt);
  } catch (error) {
    if (!isPlatformError(error)) throw error;
    failure = error;
    if (call === undefined && !isMissed(run, error))
      await recordRefusedRun(deps, schedule, run, { input, error, startedAt, scheduledAt });
  }
  const end = endedWith(failure);
  if (call === undefined && failure !== undefined && isMissed(run, failure)) await countMissedRun(deps, run);
  // An exhausted daily quota is not a lack of capacity.
  else if (success === undefined)
    await countEndedRun(deps, run, failure && isUsedUp(failure) ? { ...end, errorCode: null } : end);
  else if (success === 'changes schedule') await changeEndedSchedule(deps, run, end);
  return {
    run_id: run.runId,
    status: answerStatus(end.status),
    duration_ms: deps.clock.now() - startedAt,
    output: answer?.data ?? null,
    error: end.errorMessage,
  };
}

/** Builds the answer for a run that is not over: it is durable, or is tried again. */
export const unfinished = (run_id: string, duration_ms: number): ScheduleRunAnswer => ({
  ...{ run_id, status: 'queued', duration_ms, output: null, error: null },
});

const ignore = (): void => {};

/** Returns whether the run was rejected for lack of capacity that may soon be available. */
const lacksRoom = (error: unknown): boolean =>
  isHostBusy(error) ||
  (isPlatformError(error) && error.code === 'RATE_LIMITED' && !isUsedUp(error) && !isRefusedByRule(error));

/** Returns whether the run is missed: a timed run without capacity. Other runs are answered with their error. */
const isMissed = ({ source }: OpenScheduleRun, error: PlatformError): boolean =>
  source === 'schedule' && lacksRoom(error);

async function startWhenAdmitted(
  deps: Deps,
  schedule: Schedule,
  run: OpenScheduleRun,
  { onStarted, ...settings }: RunSettings,
): Promise<StartedCall> {
  for (;;) {
    try {
      return await startScheduledCall(deps, schedule, run, settings);
    } catch (error) {
      if (!lacksRoom(error) || deps.clock.now() >= settings.waitUntil) throw error;
      onStarted?.();
      await sendHeartbeat(deps, run);
      await deps.clock.sleep(RETRY_MS * (0.5 + Math.random()));
    }
  }
}

async function startScheduledCall(
  deps: Deps,
  schedule: Schedule,
  run: OpenScheduleRun,
  { input, scheduledAt, waitUntil, ...trace }: Omit<RunSettings, 'onStarted'>,
): Promise<StartedCall> {
  const [resolved, workspace] = await Promise.all([
    versionToRun(deps, schedule),
    findWorkspace(deps, schedule.workspaceId),
  ]);
  if (workspace === undefined) throw new Error(`workspace ${schedule.workspaceId} has a schedule but no record`);
  const { agent, channel } = resolved ?? {};
  checkStillShared(agent, schedule);
  await noteLackingGrants(deps, schedule, agent);
  const endpoint = agent.definition.default_endpoint;
  await checkDeprecation(deps, { agent, channel }, endpoint);
  return startCall(deps, {
    agent,
    channel,
    endpoint,
    input: {
      document: input,
      uploads: [],
      isMultipart: false,
      ...(schedule.llmProvider !== null && { llmCredentials: { provider: schedule.llmProvider } }),
    },
    workspace,
    runId: run.runId,
    triggerSource: run.source,
    receivedAt: deps.clock.now(),
    mayBeginUntil: waitUntil,
    // Callers of a trigger or webhook get the result in the response.
    isUnattended: run.source === 'schedule',
    lineage: topOfChain(agent),
    ...trace,
    skillHeaders: {},
    scheduleId: schedule.id,
    ...(schedule.retry && { retry: schedule.retry }),
    rules: rulesOf(schedule),
    ...(scheduledAt !== undefined && { scheduled: { at: scheduledAt, timezone: schedule.timezone } }),
  });
}

const rulesOf = ({ concurrency, rate, debounce }: Schedule): QueueRules => ({
  ...(concurrency && { concurrency }),
  ...(rate && { rate }),
  ...(debounce && { debounce }),
});

/** An agent of another workspace may have been deleted or made private since the schedule was created. */
function checkStillShared(agent: AgentVersion | undefined, schedule: Schedule): asserts agent is AgentVersion {
  const full = `${schedule.agentOrg}/${schedule.agentName}`;
  const name = `${full} ${schedule.agentVersion}`;
  if (agent === undefined && schedule.channel != null) {
    const text = `The channel ${schedule.channel} of ${full}, which this schedule follows, was deleted.`;
    throw new PlatformError('NOT_FOUND', text, { hint: 'Change its agent_version, or make the channel again.' });
  }
  if (agent === undefined) throw new PlatformError('NOT_FOUND', `The agent ${name} of this schedule was deleted.`);
  if (agent.workspaceId !== schedule.workspaceId && !agent.definition.is_public) {
    throw new PlatformError('FORBIDDEN', `The agent ${name} of this schedule is no longer public.`);
  }
}
