import type { AnswerOf } from '../../api/client.ts';

type Run = AnswerOf<'listRuns'>['runs'][number];
type Slot = AnswerOf<'listUpcoming'>['slots'][number];
type ScheduleEvent = AnswerOf<'listScheduleEvents'>['events'][number];

/** Outcome of a slot, or `due` if it is in the future. */
export type EntryState = 'completed' | 'failed' | 'cancelled' | 'running' | 'missed' | 'skipped' | 'due';

export interface Entry {
  /** Its id. */
  readonly schedule: string;
  /** Local midnight of the entry's day, in epoch milliseconds. */
  readonly day: number;
  /** Epoch milliseconds. */
  readonly at: number;
  readonly state: EntryState;
  /** Number of slots in this entry. */
  readonly count: number;
  /** Tooltip text. */
  readonly text?: string;
}

export const midnight = (at: Date): Date => new Date(at.getFullYear(), at.getMonth(), at.getDate());

const entry = (schedule: string, at: number, state: EntryState, count = 1, text?: string): Entry => ({
  schedule,
  at,
  day: midnight(new Date(at)).getTime(),
  state,
  count,
  ...(text !== undefined && { text }),
});

const STATES: Readonly<Record<Run['status'], EntryState>> = {
  queued: 'running',
  running: 'running',
  waiting: 'running',
  completed: 'completed',
  failed: 'failed',
  timeout: 'failed',
  cancelled: 'cancelled',
};

export const entryOfRun = (schedule: string, run: Run): Entry =>
  entry(schedule, Date.parse(run.started_at ?? run.created_at), STATES[run.status], 1, run.error_message ?? undefined);

/** Returns the entry of a slot that did not run. */
export function entryOfEvent(
  schedule: string,
  { event_type, message, slot_at, count }: ScheduleEvent,
): Entry | undefined {
  const state = event_type === 'missed' ? 'missed' : event_type === 'skipped_overlap' ? 'skipped' : undefined;
  if (state === undefined || slot_at === null) return undefined;
  return entry(schedule, Date.parse(slot_at), state, count ?? 1, message ?? undefined);
}

export function entryOfSlot({ schedule_id, at, local, utc_offset, dst, overlap, timezone }: Slot): Entry {
  if (at === null) {
    const text = `${local.replace('T', ' ')} does not exist in ${timezone}: clocks change`;
    return entry(schedule_id, Date.parse(`${local}:00${utc_offset}`), 'skipped', 1, text);
  }
  const text =
    overlap === 'skip'
      ? 'Will be skipped if the previous run takes as long as the last one'
      : dst === 'repeated'
        ? `This time occurs twice in ${timezone}: the first one runs`
        : undefined;
  return entry(schedule_id, Date.parse(at), overlap === 'skip' ? 'skipped' : 'due', 1, text);
}
