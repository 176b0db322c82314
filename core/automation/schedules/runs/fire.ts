import { SCHEDULE_WINDOW_MS } from '#core/base/time-limits.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Item } from '#core/ports/table.ts';
import { RunStore } from '#core/runs/store.ts';
import type { Schedule } from '../schedule.ts';
import { listDue, type ScheduleChange, ScheduleStore } from '../store.ts';
import { dueMinutes } from '../timing/due-minutes.ts';
import { endOf } from '../timing/ending.ts';
import { countEndedRun } from './ended-runs.ts';
import { hasOpenRun, listOpenScheduleRuns, type OpenScheduleRun, takeOverRun } from './open-runs.ts';
import { failUnstartedRun } from './refused-runs.ts';
import { beginRunChange, executeRun } from './run.ts';

/** Maximum clock skew of a timer ahead of our clock. */
const MAX_SKEW_MS = 60_000;
/** Time without a timer event after which a schedule is overdue. */
const OVERDUE_MS = 90_000;
/** Maximum number of schedules that one sweep runs concurrently. */
const SWEEP_CONCURRENCY = 100;

export interface FireRequest {
  readonly workspaceId: string;
  readonly scheduleId: string;
  /** Minute that a timer was set for, in epoch milliseconds. */
  readonly scheduledFor?: number | undefined;
  /** Item of the schedule, as read from a list of due schedules. */
  readonly item?: Item | undefined;
  /** Called before the run, once the due minutes are claimed. */
  readonly onTaken?: () => void;
  /** Called when the run reaches its agent, or waits for capacity. */
  readonly onStarted?: () => void;
}

/**
 * Handles all due minutes of a schedule: runs the latest if it is at most five minutes old, and records older ones as
 * missed. Handles each minute once, regardless of repeated or concurrent calls. Resolves when the run has ended. Also
 * ends a webhook whose `endsAt` has passed.
 */
export async function fireDue(
  deps: Deps,
  { workspaceId, scheduleId, scheduledFor = 0, item, onTaken, onStarted }: FireRequest,
): Promise<void> {
  const now = deps.clock.now();
  const until = scheduledFor - now <= MAX_SKEW_MS ? Math.max(now, scheduledFor) : now;
  const runId = deps.ids.uuid();
  let run: OpenScheduleRun | undefined;
  const changed = await new ScheduleStore(deps, workspaceId).change(
    scheduleId,
    async (schedule, { isParked }) => {
      // Its minutes are handled in the cell where the workspace works.
      if (isParked) return undefined;
      const taken = await takeDueMinutes(deps, schedule, { until, runId });
      run = taken?.run;
      return taken?.change;
    },
    item,
  );
  onTaken?.();
  if (changed && run) {
    await executeRun(deps, changed, run, { waitUntil: run.scheduledFor! + SCHEDULE_WINDOW_MS, onStarted });
  }
}

/**
 * Returns the change that claims the minutes due by `until`, and the run that it begins; `undefined` if nothing is due.
 */
async function takeDueMinutes(
  deps: Deps,
  schedule: Schedule,
  { until, runId }: { until: number; runId: string },
): Promise<{ change: ScheduleChange; run?: OpenScheduleRun } | undefined> {
  const due = dueMinutes(schedule, until);
  // A change without members ends a webhook whose time is over.
  if (due === undefined) return endOf(schedule, deps.clock.now()) && { change: {} };
  const { newest, missed, next } = due;
  const set = { nextRunAt: next === undefined ? null : isoTime(next) };
  if (newest === undefined) return { change: { set, events: missed } };
  if (schedule.overlap === 'skip' && (await hasOpenRun(deps, schedule.id))) {
    const message = `The run of ${isoTime(newest)} was skipped: an earlier run was still in progress.`;
    const skipped = { type: 'skipped_overlap', message, slot: { at: newest, count: 1 } } as const;
    return { change: { set, events: [...missed, skipped] } };
  }
  const { id: scheduleId, workspaceId } = schedule;
  const { lastRunAt, lastRunId, lastRunStatus } = schedule;
  const before = { lastRunAt, lastRunId, lastRunStatus };
  const run: OpenScheduleRun = { scheduleId, workspaceId, runId, source: 'schedule', scheduledFor: newest, before };
  const begin = beginRunChange(deps, schedule, run);
  return { change: { ...begin, set: { ...begin.set, ...set }, events: missed }, run };
}

/**
 * Handles due minutes whose timer did not fire. Safe to run at any time and on any host; resolves when the runs have
 * ended.
 */
export async function fireOverdue(deps: Deps, atOnce = SWEEP_CONCURRENCY): Promise<void> {
  const overdue = listDue(deps, deps.clock.now() - OVERDUE_MS);
  const worker = async (): Promise<void> => {
    for (let next = await overdue.next(); !next.done; next = await overdue.next()) {
      const { id, workspaceId, item } = next.value;
      await fireDue(deps, { workspaceId, scheduleId: id, item }).catch((error: unknown) =>
        deps.log.error('schedule failed', { schedule_id: id, error: String(error) }),
      );
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}

/**
 * Recovers open runs whose process died: counts runs that have ended, starts runs that have not started, or records
 * them as failed if it is too late. `lost` defaults to runs without a heartbeat for a minute. Safe to run at any time
 * and on any host; resolves when the runs have ended.
 */
export async function sweepScheduleRuns(deps: Deps, lost?: readonly OpenScheduleRun[]): Promise<void> {
  const open = lost ?? (await Array.fromAsync(listOpenScheduleRuns(deps)));
  await Promise.all(
    open.map((run) =>
      resumeRun(deps, run).catch((error: unknown) =>
        deps.log.error('run of a schedule not settled', { run_id: run.runId, error: String(error) }),
      ),
    ),
  );
}

async function resumeRun(deps: Deps, run: OpenScheduleRun): Promise<void> {
  const record = await new RunStore(deps, run.workspaceId).find(run.runId);
  // A run that seems lost may still end. It is counted when its record has a result, see `core/runs/sweep.ts`.
  if (record?.completedAt === null) return;
  if (record) return countEndedRun(deps, run, record);
  const schedule = await new ScheduleStore(deps, run.workspaceId).findEver(run.scheduleId);
  if (schedule === undefined || !(await takeOverRun(deps, run))) return;
  const waitUntil = run.scheduledFor === undefined ? 0 : run.scheduledFor + SCHEDULE_WINDOW_MS;
  if (deps.clock.now() <= waitUntil && schedule.deletedAt === null) {
    await executeRun(deps, schedule, run, { waitUntil });
  } else {
    await failUnstartedRun(deps, schedule, run);
  }
}
