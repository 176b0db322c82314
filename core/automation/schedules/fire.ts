import { SCHEDULE_WINDOW_MS } from '#core/base/time-limits.ts';
import { Zone } from '#core/base/zone.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { RunStore } from '#core/runs/store.ts';
import { type Cron, nextTime, parseCron, previousTime } from './cron.ts';
import { beginning, countRun, execute, recordLostBeginning } from './run.ts';
import {
  listDue,
  listOpenScheduleRuns,
  type NewScheduleEvent,
  type OpenScheduleRun,
  type Schedule,
  type ScheduleChange,
  ScheduleStore,
  takeOver,
} from './store.ts';

/** A timer's clock may be this far ahead of ours. */
const MAX_SKEW_MS = 60_000;
/** A timer had this long to wake us. */
const OVERDUE_MS = 90_000;
/** Schedules that one sweep runs at once. */
const MAX_AT_ONCE = 100;
/** Minutes that are counted one by one when they were missed. */
const MAX_COUNTED = 1000;

/**
 * Deals with all minutes of a schedule that are due: the newest runs when it is no more than five minutes back, older
 * ones are noted as missed. Safe to call at any time and as often as anybody likes, at once as well: each minute is dealt
 * with once. Ends when the run has ended. `scheduledFor` is the minute that a timer was set for, in epoch milliseconds;
 * `onTaken` is called before the run, when nothing is due any more.
 */
export async function fireDue(
  deps: Deps,
  {
    workspaceId,
    scheduleId,
    scheduledFor = 0,
    onTaken,
  }: { workspaceId: string; scheduleId: string; scheduledFor?: number; onTaken?: () => void },
): Promise<void> {
  const now = deps.clock.now();
  const until = scheduledFor - now <= MAX_SKEW_MS ? Math.max(now, scheduledFor) : now;
  const runId = deps.ids.uuid();
  let run: OpenScheduleRun | undefined;
  const changed = await new ScheduleStore(deps, workspaceId).change(scheduleId, (schedule) => {
    run = undefined;
    const due = dueAt(schedule, until);
    if (due === undefined) return undefined;
    const { newest, missed, next } = due;
    const set = { next_run_at: next === undefined ? null : isoTime(next) };
    if (newest === undefined) return { set, events: missed };
    if (schedule.overlap === 'skip' && schedule.open_runs > 0) {
      const message = `The run of ${isoTime(newest)} was skipped: an earlier one was still under way.`;
      return { set, events: [...missed, { type: 'skipped_overlap', message }] };
    }
    run = {
      schedule_id: scheduleId,
      workspace_id: workspaceId,
      run_id: runId,
      source: 'schedule',
      scheduled_for: newest,
    };
    const begun: ScheduleChange = beginning(deps, schedule, run);
    return { ...begun, set: { ...begun.set, ...set }, events: missed };
  });
  onTaken?.();
  if (changed && run) await execute(deps, changed, run, { waitUntil: run.scheduled_for! + SCHEDULE_WINDOW_MS });
}

interface Due {
  /** The minute that is to run. */
  readonly newest?: number;
  readonly missed: readonly NewScheduleEvent[];
  readonly next?: number;
}

/** `undefined` when nothing is. */
function dueAt(schedule: Schedule, until: number): Due | undefined {
  if (!schedule.enabled || schedule.cron_expression === null || schedule.deleted_at !== null) return undefined;
  const cron = parseCron(schedule.cron_expression);
  const zone = Zone.of(schedule.timezone);
  const next = nextTime(cron, zone, until);
  // It was lost: what should have happened meanwhile nobody can tell.
  if (schedule.next_run_at === null) return { missed: [], next };
  const first = Date.parse(schedule.next_run_at);
  if (first > until) return undefined;
  const newest = Math.max(previousTime(cron, zone, until) ?? first, first);
  const isLate = until - newest > SCHEDULE_WINDOW_MS;
  const last = isLate ? newest : previousTime(cron, zone, newest - 1);
  const missed = last !== undefined && last >= first ? [missedEvent(cron, zone, first, last)] : [];
  return { ...(!isLate && { newest }), missed, next };
}

function missedEvent(cron: Cron, zone: Zone, first: number, last: number): NewScheduleEvent {
  let count = 1;
  for (let time = first; time < last && count <= MAX_COUNTED; count++) time = nextTime(cron, zone, time) ?? last;
  const message =
    count === 1
      ? `The run of ${isoTime(first)} was missed.`
      : `${count > MAX_COUNTED ? `More than ${MAX_COUNTED}` : count} runs were missed, from ${isoTime(first)} to ${isoTime(last)}.`;
  return { type: 'missed', message };
}

/** Deals with what is due and no timer woke us for. Safe to run anywhere, at any time; ends when the runs have ended. */
export async function fireOverdue(deps: Deps): Promise<void> {
  const overdue = listDue(deps, deps.clock.now() - OVERDUE_MS);
  const worker = async (): Promise<void> => {
    for (let next = await overdue.next(); !next.done; next = await overdue.next()) {
      const { id, workspace_id: workspaceId } = next.value;
      await fireDue(deps, { workspaceId, scheduleId: id }).catch((error: unknown) =>
        deps.log.error('schedule failed', { schedule_id: id, error: String(error) }),
      );
    }
  };
  await Promise.all(Array.from({ length: MAX_AT_ONCE }, worker));
}

/**
 * Goes on with runs whose process died: those that have ended are counted, those that did not begin begin now, or are
 * noted as missed or failed when it is too late for that. By default with those whose processes were not heard of for a
 * minute. Safe to run anywhere, at any time; ends when the runs have ended.
 */
export async function sweepScheduleRuns(deps: Deps, lost?: readonly OpenScheduleRun[]): Promise<void> {
  const open = lost ?? (await Array.fromAsync(listOpenScheduleRuns(deps)));
  await Promise.all(
    open.map((run) =>
      goOnWith(deps, run).catch((error: unknown) =>
        deps.log.error('run of a schedule not settled', { run_id: run.run_id, error: String(error) }),
      ),
    ),
  );
}

async function goOnWith(deps: Deps, run: OpenScheduleRun): Promise<void> {
  const record = await new RunStore(deps, run.workspace_id).find(run.run_id);
  // One that seems lost may end yet: it is counted as its record says in the end, see `core/runs/sweep.ts`.
  if (record?.completedAt === null) return;
  if (record) return countRun(deps, run, { status: record.status, errorMessage: record.errorMessage });
  const schedule = await new ScheduleStore(deps, run.workspace_id).findEver(run.schedule_id);
  if (schedule === undefined || !(await takeOver(deps, run))) return;
  const isInTime = run.scheduled_for !== undefined && deps.clock.now() - run.scheduled_for <= SCHEDULE_WINDOW_MS;
  if (isInTime && schedule.deleted_at === null) {
    await execute(deps, schedule, run, { waitUntil: run.scheduled_for + SCHEDULE_WINDOW_MS });
  } else {
    await recordLostBeginning(deps, schedule, run);
  }
}
