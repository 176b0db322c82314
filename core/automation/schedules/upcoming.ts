import { PlatformError } from '#core/base/errors.ts';
import { Zone } from '#core/base/zone.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { RunStore } from '#core/runs/store.ts';
import type { Schedule } from './schedule.ts';
import { MAX_SLOTS } from './schema.ts';
import { ScheduleStore } from './store.ts';
import { parseCron } from './timing/cron.ts';
import { type Slot, slotsAfter, slotView } from './timing/slots.ts';

const DAY_MS = 24 * 3600_000;
const DEFAULT_DAYS = 7;
const MAX_DAYS = 366;
/** Maximum number of schedules in one response; the newest ones. */
const MAX_SCHEDULES = 2000;

type UpcomingDeps = Pick<Deps, 'config' | 'main' | 'runs' | 'blobs' | 'clock' | 'ids'>;

interface ScheduledSlot {
  readonly schedule: Schedule;
  readonly slot: Slot;
  readonly overlaps: boolean;
}

/**
 * Returns the first `count` times that match an expression after `after` (epoch milliseconds), plus those that clock
 * changes skip. None is after `endsAt` (epoch milliseconds).
 */
export function previewSlots(
  expression: string,
  timezone: string,
  count: number,
  after: number,
  endsAt = Number.POSITIVE_INFINITY,
) {
  const cron = parseCron(expression);
  const slots: ReturnType<typeof slotView>[] = [];
  let runs = 0;
  for (const slot of slotsAfter(cron, Zone.of(timezone), after)) {
    if (slot.place > endsAt) break;
    slots.push(slotView(slot));
    if (slot.instant !== undefined && ++runs === count) break;
  }
  return { cron_expression: cron.expression, timezone, slots };
}

/**
 * Returns the upcoming runs of the enabled schedules of a workspace between two times (ISO 8601; default: the next 7
 * days), at most `limit` slots (2,000). Throws INVALID_INPUT for a window that is in the past, inverted or longer than
 * 366 days.
 */
export async function upcomingSlots(
  deps: UpcomingDeps,
  workspaceId: string,
  window: { readonly from?: string | undefined; readonly to?: string | undefined; readonly limit?: number },
) {
  const { limit = MAX_SLOTS } = window;
  const now = deps.clock.now();
  const from = Math.max(now, window.from === undefined ? now : Date.parse(window.from));
  const to = window.to === undefined ? from + DEFAULT_DAYS * DAY_MS : Date.parse(window.to);
  if (to <= from) {
    throw new PlatformError('INVALID_INPUT', `query.to: must be after ${isoTime(from)}; list the runs for past times.`);
  }
  if (to - from > MAX_DAYS * DAY_MS) {
    throw new PlatformError('INVALID_INPUT', `query.to: must be at most ${MAX_DAYS} days after from.`);
  }
  const { schedules, total } = await new ScheduleStore(deps, workspaceId).list(
    { type: 'cron' },
    { limit: MAX_SCHEDULES, offset: 0 },
  );
  const enabled = schedules.filter((schedule) => schedule.enabled && schedule.cronExpression !== null);
  const durations = await lastDurations(deps, workspaceId, enabled);
  let slots: ScheduledSlot[] = [];
  let end = to;
  let isCut = total > schedules.length;
  for (const schedule of enabled) {
    slots.push(...slotsOf(schedule, { duration: durations.get(schedule.lastRunId ?? ''), from, end, limit }));
    if (slots.length <= limit) continue;
    // Later slots are not returned, so the remaining schedules need not produce them.
    slots = slots.sort(byPlace).slice(0, limit);
    end = slots.at(-1)!.slot.place + 1;
    isCut = true;
  }
  return {
    from: isoTime(from),
    to: isoTime(to),
    slots: slots.sort(byPlace).map(({ schedule, slot, overlaps }) => ({
      schedule_id: schedule.id,
      agent_name: schedule.agentName,
      agent_version: schedule.agentVersion,
      timezone: schedule.timezone,
      ...slotView(slot),
      overlap: overlaps ? schedule.overlap : null,
    })),
    is_cut: isCut,
  };
}

const byPlace = (a: ScheduledSlot, b: ScheduledSlot): number => a.slot.place - b.slot.place;

/**
 * Returns the slots of a schedule after `from` and before `end`, up to one more than `limit`. `duration` is the
 * duration of its last run, if known.
 */
function slotsOf(
  schedule: Schedule,
  {
    duration,
    from,
    end,
    limit,
  }: { readonly duration: number | undefined; readonly from: number; readonly end: number; readonly limit: number },
): ScheduledSlot[] {
  const slots: ScheduledSlot[] = [];
  const { endsAt, maxRuns, runCount } = schedule;
  const last = endsAt == null ? Number.POSITIVE_INFINITY : Date.parse(endsAt);
  let left = maxRuns == null ? Number.POSITIVE_INFINITY : maxRuns - runCount;
  let busyUntil = 0;
  for (const slot of slotsAfter(parseCron(schedule.cronExpression!), Zone.of(schedule.timezone), from, end)) {
    if (slot.place >= end || slot.place > last || left <= 0 || slots.length > limit) break;
    const overlaps = slot.instant !== undefined && slot.instant < busyUntil;
    slots.push({ schedule, slot, overlaps });
    const begins = slot.instant !== undefined && !(overlaps && schedule.overlap === 'skip');
    if (begins) left--;
    if (begins && duration !== undefined) busyUntil = slot.instant + duration;
  }
  return slots;
}

/** Maps run IDs to the duration of the last run of a schedule, for ended runs. */
async function lastDurations(
  deps: UpcomingDeps,
  workspaceId: string,
  schedules: readonly Schedule[],
): Promise<ReadonlyMap<string, number>> {
  const ids = schedules.flatMap(({ lastRunId }) => lastRunId ?? []);
  const runs = await new RunStore(deps, workspaceId).findAll(ids);
  return new Map(runs.flatMap(({ id, durationMs }) => (durationMs === null ? [] : [[id, durationMs] as const])));
}
