import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { findAnyVersion } from '#core/agents/store.ts';
import type { AgentVersion } from '#core/agents/version.ts';
import { isPlatformError, PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { type Delivery, deliveryOperation, tryDelivery } from '#core/outbound/deliveries.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type StartedCall, startCall } from '#core/running/calls/call.ts';
import type { CallAnswer } from '#core/running/calls/finish.ts';
import { checkDeprecation } from '#core/running/calls/target.ts';
import { topOfChain } from '#core/running/sub-calls/lineage.ts';
import { emptyResult, endedWith, newRunOf, type Run } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { isAlertDue, streakOf } from '../alerts/failure-streak.ts';
import { type AlertDeps, newAlert, scheduleAlertListener } from '../alerts/schedule-alerts.ts';
import { versionToRun } from './follow.ts';
import {
  countedOperation,
  keepOpen,
  type NewScheduleEvent,
  type OpenScheduleRun,
  openRunOperation,
  type Schedule,
  type ScheduleChange,
  ScheduleStore,
} from './store.ts';

/** The Run of a trigger or a webhook (`spec.md` *Run*). */
export interface ScheduleRunAnswer {
  readonly run_id: string;
  readonly status: 'success' | 'error' | 'timeout';
  readonly duration_ms: number;
  readonly output: Json;
  readonly error: string | null;
}

/** How a run of a schedule ended, as far as the schedule counts it. */
type Ended = Pick<Run, 'status' | 'errorMessage'>;

/** A call that finds too many under way tries again after about this long. */
const TURN_POLL_MS = 1000;
/** Longer waits are for the next day's calls. */
const MAX_TURN_WAIT_SECONDS = 2;

/**
 * Runs a schedule now, with `input` in place of its own, and waits for the end. A run that could not even begin is
 * recorded as failed. `undefined` when the schedule was deleted meanwhile.
 */
export async function runNow(
  deps: Deps,
  schedule: Schedule,
  { runId, source, input }: { runId: string; source: 'manual' | 'webhook'; input: Schedule['input_data'] },
): Promise<ScheduleRunAnswer | undefined> {
  const run: OpenScheduleRun = { schedule_id: schedule.id, workspace_id: schedule.workspace_id, run_id: runId, source };
  const begun = await new ScheduleStore(deps, schedule.workspace_id).change(schedule.id, (current) =>
    current.deleted_at === null ? beginning(deps, current, run) : undefined,
  );
  return begun && execute(deps, begun, run, { input });
}

/** The same of a run that has ended, by its record. */
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

/** The change that begins a run; it goes on with {@link execute}. */
export function beginning({ clock }: Pick<Deps, 'clock'>, schedule: Schedule, run: OpenScheduleRun): ScheduleChange {
  const now = clock.now();
  return {
    set: {
      run_count: schedule.run_count + 1,
      open_runs: schedule.open_runs + 1,
      last_run_at: isoTime(now),
      last_run_id: run.run_id,
      last_run_status: 'running',
    },
    alongside: [openRunOperation(run, now)],
  };
}

/**
 * Runs the agent for a run that has begun, and counts how it ended. While the workspace has too many calls under way, it
 * waits for its turn until `waitUntil` (epoch milliseconds). What it throws is a failure of ours: then the sweep goes on.
 */
export async function execute(
  deps: Deps,
  schedule: Schedule,
  run: OpenScheduleRun,
  { input = schedule.input_data, waitUntil = 0 }: { input?: Schedule['input_data']; waitUntil?: number } = {},
): Promise<ScheduleRunAnswer> {
  const startedAt = deps.clock.now();
  let answer: CallAnswer | undefined;
  let failure: PlatformError | undefined;
  let begun: StartedCall | undefined;
  try {
    begun = await beginInTurn(deps, schedule, run, { input, waitUntil });
    answer = await begun.finish();
  } catch (error) {
    if (!isPlatformError(error)) throw error;
    failure = error;
    if (begun === undefined) await recordRefusal(deps, schedule, run, { input, error, startedAt });
  }
  const end = endedWith(failure);
  await countRun(deps, run, end);
  return {
    run_id: run.run_id,
    status: answerStatus(end.status),
    duration_ms: deps.clock.now() - startedAt,
    output: answer?.data ?? null,
    error: end.errorMessage,
  };
}

async function beginInTurn(
  deps: Deps,
  schedule: Schedule,
  run: OpenScheduleRun,
  { input, waitUntil }: { input: Schedule['input_data']; waitUntil: number },
): Promise<StartedCall> {
  for (;;) {
    try {
      return await begin(deps, schedule, run, input);
    } catch (error) {
      const mayWait = isPlatformError(error) && error.code === 'RATE_LIMITED' && deps.clock.now() < waitUntil;
      if (!mayWait || (error.extra.suggested_wait_time ?? 0) > MAX_TURN_WAIT_SECONDS) throw error;
      await keepOpen(deps, run);
      await deps.clock.sleep(TURN_POLL_MS * (0.5 + Math.random()));
    }
  }
}

async function begin(
  deps: Deps,
  schedule: Schedule,
  run: OpenScheduleRun,
  document: Schedule['input_data'],
): Promise<StartedCall> {
  const [agent, workspace] = await Promise.all([
    versionToRun(deps, schedule),
    findWorkspace(deps, schedule.workspace_id),
  ]);
  if (workspace === undefined) throw new Error(`workspace ${schedule.workspace_id} has a schedule but no record`);
  checkStillShared(agent, schedule);
  const endpoint = agent.definition.default_endpoint;
  await checkDeprecation(deps, agent, endpoint);
  return startCall(deps, {
    agent,
    endpoint,
    input: {
      document,
      uploads: [],
      isMultipart: false,
      ...(schedule.llm_provider !== null && { llmCredentials: { provider: schedule.llm_provider } }),
    },
    workspace,
    runId: run.run_id,
    triggerSource: run.source,
    receivedAt: deps.clock.now(),
    lineage: topOfChain(agent),
    skillHeaders: {},
    scheduleId: schedule.id,
  });
}

/** An agent of another workspace may have been deleted or withdrawn since the schedule was made. */
function checkStillShared(agent: AgentVersion | undefined, schedule: Schedule): asserts agent is AgentVersion {
  const name = `${schedule.agent_org}/${schedule.agent_name} ${schedule.agent_version}`;
  if (agent === undefined) throw new PlatformError('NOT_FOUND', `The agent ${name} of this schedule was deleted.`);
  if (agent.workspaceId !== schedule.workspace_id && !agent.definition.is_public) {
    throw new PlatformError('FORBIDDEN', `The agent ${name} of this schedule is no longer public.`);
  }
}

/** A run that could not begin has a record all the same: whoever set it up is not there to be told. */
async function recordRefusal(
  deps: Deps,
  schedule: Schedule,
  run: OpenScheduleRun,
  { input, error, startedAt }: { input: Json; error: PlatformError; startedAt: number },
): Promise<void> {
  const runs = new RunStore(deps, schedule.workspace_id);
  const agent = await findAnyVersion(deps, schedule.agent_id);
  const record = newRunOf({
    id: run.run_id,
    agent: {
      id: schedule.agent_id,
      workspaceId: schedule.agent_workspace_id,
      orgSlug: schedule.agent_org,
      name: schedule.agent_name,
      version: schedule.agent_version,
      definition: agent?.definition,
    },
    endpoint: agent?.definition.default_endpoint ?? 'run',
    triggerSource: run.source,
    startedAt,
    deadline: startedAt,
    scheduleId: schedule.id,
    input,
  });
  await runs.start(record);
  await runs.finish(record, emptyResult(endedWith(error), input));
}

/** For runs that cannot begin any more: their process died before it came to that. */
export async function recordLostBeginning(deps: Deps, schedule: Schedule, run: OpenScheduleRun): Promise<void> {
  const error = new PlatformError('INTERNAL_ERROR', 'The platform stopped before this run began.');
  await recordRefusal(deps, schedule, run, { input: null, error, startedAt: deps.clock.now() });
  await countRun(deps, run, { status: 'failed', errorMessage: error.message });
}

/**
 * Counts a run that has ended, once (`spec.md` *Schedule*, the table of its states): a success resets the failures, a
 * failure adds one and disables the schedule when it is the last that is allowed. The alert that a failure makes due is
 * written with it, and goes out beside the run.
 */
export async function countRun(
  deps: AlertDeps & Pick<Deps, 'background'>,
  run: OpenScheduleRun,
  { status, errorMessage }: Ended,
): Promise<void> {
  let alert: Delivery | undefined;
  const counted = await new ScheduleStore(deps, run.workspace_id).change(run.schedule_id, (schedule) => {
    alert = undefined;
    const isFailure = status === 'failed' || status === 'timeout';
    const failures = isFailure ? schedule.consecutive_failures + 1 : status === 'completed' ? 0 : undefined;
    const set: ScheduleChange['set'] = {
      open_runs: schedule.open_runs - 1,
      ...(schedule.last_run_id === run.run_id && { last_run_status: status }),
      ...(failures !== undefined && { consecutive_failures: failures }),
    };
    const alongside = [countedOperation(run)];
    if (!isFailure) return { set, alongside };
    const events: NewScheduleEvent[] = [
      {
        type: 'run_failed',
        message: `Run ${run.run_id} failed: ${errorMessage ?? 'no reason was given'}`.slice(0, 500),
      },
    ];
    const autoDisabled = schedule.enabled && failures! >= schedule.max_consecutive_failures;
    const after = { ...schedule, ...set };
    if (after.alert_webhook_url !== null && isAlertDue(after, { autoDisabled })) {
      const streak = streakOf(after, { autoDisabled, lastError: errorMessage });
      alert = newAlert(deps, streak, after.alert_webhook_url);
      alongside.push(deliveryOperation(deps, alert));
    }
    if (!autoDisabled) return { set, events, alongside };
    events.push({ type: 'auto_disabled', message: `Disabled after ${failures} failures in a row.` });
    const now = isoTime(deps.clock.now());
    return { set: { ...set, enabled: false, next_run_at: null, auto_disabled_at: now }, events, alongside };
  });
  if (counted && alert) deps.background(tryDelivery(deps, alert, scheduleAlertListener(deps)));
}
