import { findAnyVersion } from '#core/agents/store.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { Deps } from '#core/ports/deps.ts';
import { emptyResult, endedWith, newRunOf } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import type { Schedule } from '../schedule.ts';
import { countEndedRun } from './ended-runs.ts';
import type { OpenScheduleRun } from './open-runs.ts';

/** Records a run that could not start, so that the history of the schedule shows the reason. */
export async function recordRefusedRun(
  deps: Deps,
  schedule: Schedule,
  run: OpenScheduleRun,
  {
    input,
    error,
    startedAt,
    scheduledAt = run.scheduledFor,
  }: { input: Json; error: PlatformError; startedAt: number; scheduledAt?: number | undefined },
): Promise<void> {
  const runs = new RunStore(deps, schedule.workspaceId);
  const agent = await findAnyVersion(deps, schedule.agentId);
  const ran = {
    id: schedule.agentId,
    workspaceId: schedule.agentWorkspaceId,
    orgSlug: schedule.agentOrg,
    name: schedule.agentName,
    version: schedule.agentVersion,
    definition: agent?.definition,
  };
  const record = newRunOf(ran, {
    id: run.runId,
    endpoint: agent?.definition.default_endpoint ?? 'run',
    triggerSource: run.source,
    startedAt,
    deadline: startedAt,
    scheduleId: schedule.id,
    ...(scheduledAt !== undefined && { scheduled: { at: scheduledAt, timezone: schedule.timezone } }),
    input,
  });
  await runs.start(record);
  await runs.finish(record, emptyResult(endedWith(error), input));
}

/** Records and counts a run as failed if its process died before the start and it is too late to start it. */
export async function failUnstartedRun(deps: Deps, schedule: Schedule, run: OpenScheduleRun): Promise<void> {
  const error = new PlatformError('INTERNAL_ERROR', 'The platform stopped before this run started.');
  await recordRefusedRun(deps, schedule, run, { input: null, error, startedAt: deps.clock.now() });
  await countEndedRun(deps, run, endedWith(error));
}
