import type { EndStatus } from '#core/base/run-kinds.ts';
import { isoTime } from '#core/ports/clock.ts';
import { readOutcomes, runsIn } from '#core/runs/usage/outcomes.ts';
import { countOf, type Rollup } from './rollups.ts';

/** Log entry of an ended run. */
export interface LogEntry {
  readonly runId: string;
  readonly agentOrg: string;
  readonly agentName: string;
  readonly version: string;
  readonly endpoint: string;
  readonly status: EndStatus;
  readonly httpStatus: number;
  readonly durationMs: number;
  readonly tenantId: string | null;
  readonly startedAt: string;
}

export interface LogFilter {
  readonly tenantId?: string;
  readonly agentName?: string;
  readonly status?: EndStatus;
}

export interface Slice {
  readonly limit: number;
  readonly offset: number;
}

export interface LogPage {
  readonly entries: LogEntry[];
  readonly total: number;
}

/** First and last sort key of a part of a log, which begin with a time. */
export type SortKeys = readonly [first: string, last: string];

/** Source of a log's entries. */
export interface LogSource {
  /** Yields the entries of a part of the log, newest first, reading pages of this size. */
  readonly between: (range: SortKeys, pageSize: number) => AsyncIterable<LogEntry>;
  /** Number of entries that the source has for a roll-up. @default - all its runs */
  readonly entriesOf?: (rollup: Rollup) => number;
  /** Counts a part of the log in a fraction of the time that it takes to read them. Absent where that is not possible. */
  readonly countIn?: ((range: SortKeys) => Promise<number>) | undefined;
  /** Whether `countIn` also counts what `between` leaves out. */
  readonly hasOthers?: boolean;
}

const MAX_PAGE_SIZE = 1000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Entries that may be read to reach the first one of a page. To find a closer place would cost as much. */
const MAX_PASSED = 100;
/** To count more takes longer than to read the entries that come before any page. */
const MAX_COUNTED = 1_000_000;

/**
 * Reads one page of a log. Roll-ups tell the number of matching runs of each day and hour: what has no match and what is
 * before the offset is not read, and the total is exact.
 */
export async function pageOfLogs(
  rollups: readonly Rollup[],
  filter: LogFilter,
  { limit, offset }: Slice,
  source: LogSource,
): Promise<LogPage> {
  const days = Map.groupBy(rollups, ({ day }) => day);
  const all = [...days].map(([day, ofDay]) => dayOf(day, ofDay, filter, source));
  const total = all.reduce((sum, { matching }) => sum + matching, 0);
  const entries: LogEntry[] = [];
  let left = offset;
  for (const day of all.sort((a, b) => b.start - a.start)) {
    if (entries.length === limit) break;
    if (day.matching === 0) continue;
    if (day.matching <= left) {
      left -= day.matching;
      continue;
    }
    const { end, passed } = await pass(day, left, source);
    left -= passed;
    let seen = passed;
    const wanted = left + limit - entries.length;
    // Enough if the matching entries are spread evenly.
    const pageSize = Math.min(Math.ceil((wanted * day.read) / day.matching), MAX_PAGE_SIZE);
    for await (const entry of source.between(between(day.start, end), pageSize)) {
      if (!matches(entry, filter)) continue;
      seen += 1;
      if (left > 0) left -= 1;
      else entries.push(entry);
      if (seen === day.matching || entries.length === limit) break;
    }
  }
  return { entries, total };
}

/** A day of a log. Times are in epoch milliseconds. */
interface Day {
  readonly start: number;
  /** Number of entries that match the filter, and of those that the source has. */
  readonly matching: number;
  readonly read: number;
  /** Hour of the day -> number of matching entries, if that is known. */
  readonly hours: ReadonlyMap<number, number> | undefined;
}

function dayOf(day: string, rollups: readonly Rollup[], filter: LogFilter, { entriesOf = countOf }: LogSource): Day {
  const { agentName, status } = filter;
  const wanted = rollups.filter((rollup) => agentName === undefined || agentName === rollup.agentName);
  const sum = (of: readonly Rollup[], count: (rollup: Rollup) => number) =>
    of.reduce((all, rollup) => all + count(rollup), 0);
  const matching = sum(wanted, (rollup) => countOf(rollup, status));
  const hours = (): Day['hours'] => {
    const { durations } = readOutcomes(wanted.map(({ totals }) => totals));
    const counts = new Map([...durations].map(([hour, each]) => [hour, runsIn(each)]));
    // Roll-ups of tenants and of older releases have no hours.
    return counts.values().reduce((all, count) => all + count, 0) === matching ? counts : undefined;
  };
  return {
    start: Date.parse(day),
    matching,
    read: sum(rollups, entriesOf),
    get hours() {
      return status === undefined ? hours() : undefined;
    },
  };
}

/** Finds a time of the day (exclusive) from which on the log has at most `count` matching entries, and their number. */
async function pass(day: Day, count: number, source: LogSource): Promise<{ end: number; passed: number }> {
  const { countIn, hasOthers = false } = source;
  let [start, end] = [day.start, day.start + DAY_MS];
  let [passed, within] = [0, day.matching];
  if (count <= MAX_PASSED) return { end, passed };
  const { hours } = day;
  if (hours !== undefined) {
    let hour = 23;
    for (; passed + (hours.get(hour) ?? 0) <= count; hour--) passed += hours.get(hour) ?? 0;
    [start, end] = [day.start + hour * HOUR_MS, day.start + (hour + 1) * HOUR_MS];
    within = hours.get(hour)!;
  }
  if (countIn === undefined || day.read !== day.matching || within > MAX_COUNTED) return { end, passed };
  // Unfinished runs and installations are in the same index, but in no log.
  if (hasOthers && (await countIn(between(start, end))) !== within) return { end, passed };
  for (let isHalved = false; count - passed > MAX_PASSED && end - start > 1; ) {
    // A guess that is right if the entries are spread evenly, or half of the time after one that was far off.
    const share = isHalved ? 0.5 : (count - passed - MAX_PASSED / 2) / within;
    const at = Math.min(Math.max(Math.round(end - share * (end - start)), start + 1), end - 1);
    const newer = await countIn(between(at, end));
    const before = within;
    if (passed + newer <= count) {
      passed += newer;
      within -= newer;
      end = at;
    } else {
      within = newer;
      start = at;
    }
    isHalved = !isHalved && within > before / 2;
  }
  return { end, passed };
}

/** Returns the sort keys of a part of a log; in some of them the id follows the time. */
const between = (start: number, end: number): SortKeys => [isoTime(start), `${isoTime(end - 1)}~`];

const matches = (entry: LogEntry, { tenantId, agentName, status }: LogFilter): boolean =>
  (tenantId === undefined || entry.tenantId === tenantId) &&
  (agentName === undefined || entry.agentName === agentName) &&
  (status === undefined || entry.status === status);
