import type { ScheduleTrigger } from '#core/base/run-kinds.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, anyOf, equals, exists, type Item, queryAll, type TransactOperation } from '#core/ports/table.ts';
import { hexOf } from '#core/runs/items.ts';
import { listIndexed, metaKey } from '../items.ts';
import type { Schedule } from '../schedule.ts';

/**
 * A run of a schedule that has started or is about to start, and is not counted yet. Main table: `SCHEDULE#<id> /
 * RUN#<run id>` (gsi2: `OPENRUNS#<first digit>` by the time of its next check).
 */
export interface OpenScheduleRun {
  readonly scheduleId: string;
  readonly workspaceId: string;
  readonly runId: string;
  readonly source: ScheduleTrigger;
  /** Minute of the run in epoch milliseconds, for `schedule`. */
  readonly scheduledFor?: number;
  /** Last run of the schedule at the start of this one, for `schedule`. */
  readonly before?: LastRun;
  /** Sort key in the index when it was listed, see {@link takeOverRun}. */
  readonly listedAs?: string;
}

export type LastRun = Pick<Schedule, 'lastRunAt' | 'lastRunId' | 'lastRunStatus'>;
type OpenRunId = Pick<OpenScheduleRun, 'scheduleId' | 'runId'>;
type RunDeps = Pick<Deps, 'main' | 'clock'>;

/** Time after the last heartbeat at which the sweep checks a run. */
const CHECK_AFTER_MS = 60_000;
/** Longer than any process can be suspended and then resume. */
const PREVENTED_SECONDS = 24 * 3600;

const RUN_PREFIX = 'RUN#';
/** Returns the key of the note of an open run. */
export const keyOfOpenRun = ({ scheduleId, runId }: OpenRunId) => ({
  pk: metaKey(scheduleId).pk,
  sk: `${RUN_PREFIX}${hexOf(runId)}`,
});

const indexOf = ({ runId }: OpenRunId, now: number) => ({
  gsi2pk: `OPENRUNS#${runId[0]}`,
  gsi2sk: `${isoTime(now + CHECK_AFTER_MS)}#${runId}`,
});

export const openRunFrom = (item: Item): OpenScheduleRun => ({
  scheduleId: item.schedule_id as string,
  workspaceId: item.workspace_id as string,
  runId: item.run_id as string,
  source: item.source as OpenScheduleRun['source'],
  ...(item.scheduled_for !== undefined && { scheduledFor: item.scheduled_for as number }),
  ...(item.before !== undefined && { before: item.before as unknown as LastRun }),
  ...(item.gsi2sk !== undefined && { listedAs: item.gsi2sk }),
});

const attributesOf = (run: OpenScheduleRun) => ({
  schedule_id: run.scheduleId,
  workspace_id: run.workspaceId,
  run_id: run.runId,
  source: run.source,
  ...(run.scheduledFor !== undefined && { scheduled_for: run.scheduledFor }),
  ...(run.before !== undefined && { before: { ...run.before } }),
});

/** Lists runs of all workspaces whose check is due, or every open run with `all`. */
export function listOpenScheduleRuns(
  { main, clock }: RunDeps,
  { all = false }: { readonly all?: boolean } = {},
): AsyncGenerator<OpenScheduleRun> {
  return listIndexed(main, { kind: 'OPENRUNS', until: all ? '~' : isoTime(clock.now()), read: openRunFrom });
}

/** Returns whether this schedule has a run that has started and is not counted yet. */
export async function hasOpenRun({ main }: Pick<Deps, 'main'>, scheduleId: string): Promise<boolean> {
  const query = { pk: metaKey(scheduleId).pk, sk: { beginsWith: RUN_PREFIX } };
  for await (const { is_prevented } of queryAll(main, query)) if (is_prevented === undefined) return true;
  return false;
}

/**
 * Returns the operation for the transaction that begins the run. `mayBePrevented`: whether the run ID may be known to
 * {@link preventRun}; otherwise the ID is new.
 */
export const openRunOperation = (run: OpenScheduleRun, now: number, mayBePrevented = false): TransactOperation => ({
  op: 'put',
  item: { ...keyOfOpenRun(run), ...attributesOf(run), ...indexOf(run, now) },
  ...(mayBePrevented && { condition: absent() }),
});

/** Returns the operation for the transaction that counts the run; it fails if the run is already counted. */
export const closeRunOperation = (run: OpenRunId): TransactOperation => ({
  op: 'delete',
  key: keyOfOpenRun(run),
  condition: exists(),
});

/** Prevents a run from ever starting. Returns false if it has already started. */
export async function preventRun({ main, clock }: RunDeps, run: OpenRunId): Promise<boolean> {
  const ttl = epochSeconds(clock.now()) + PREVENTED_SECONDS;
  // {@link openRunOperation} needs the key to be absent.
  return (await main.put({ ...keyOfOpenRun(run), is_prevented: true, ttl }, anyOf(absent(), exists('is_prevented'))))
    .ok;
}

/** Takes over a listed run whose process seems dead. Returns false if another process took it over first. */
export async function takeOverRun({ main, clock }: RunDeps, run: OpenScheduleRun): Promise<boolean> {
  const set = indexOf(run, clock.now());
  return (await main.update(keyOfOpenRun(run), { set }, equals('gsi2sk', run.listedAs ?? ''))).ok;
}

/** Records that the process of the run is alive. */
export async function sendHeartbeat({ main, clock }: RunDeps, run: OpenScheduleRun): Promise<void> {
  await main.update(keyOfOpenRun(run), { set: indexOf(run, clock.now()) }, exists());
}
