import type { RunStatus } from '#core/base/run-kinds.ts';
import { readCursor, writeCursor } from '#core/http/cursor.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { mergedPages } from '#core/ports/merged-query.ts';
import { getAll, type Item, type Query } from '#core/ports/table.ts';
import { digitsOf, headKey, hexOf, runFrom, runIdOf, runPartition, runsByTime, schedulePartition } from './items.ts';
import type { Run } from './run.ts';

/** Filter for the runs of a workspace; without members, all runs. `docs/interface/runs.md#lists`. */
export interface RunFilter {
  readonly agentName?: string | undefined;
  /** Version name such as `v3`. */
  readonly version?: string | undefined;
  readonly status?: RunStatus | undefined;
  readonly scheduleId?: string | undefined;
  readonly triggerSource?: string | undefined;
  readonly tenantId?: string | undefined;
  /** True selects runs without a calling run, false selects sub-calls. */
  readonly topLevel?: boolean | undefined;
  /** True selects runs whose retries failed, and that were not replayed since. */
  readonly exhausted?: boolean | undefined;
  /** Start of the run in epoch milliseconds: at or after `from`, before `to`. */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** Position of a run in its listings, after which a listing can continue. */
export interface RunPlace {
  readonly id: string;
  /** The sort key that orders the listing. */
  readonly at: string;
}

interface Scan {
  /** Newest first. */
  readonly found: readonly { readonly run: Run; readonly place: RunPlace }[];
  /** Last run that was read; absent if there are no more. */
  readonly end?: RunPlace;
}

type ListingDeps = Pick<Deps, 'runs' | 'clock'>;

/** Maximum number of records that one page of a listing reads: AWS bills each read. */
export const MAX_EXAMINED = 1000;
const READ_AT_ONCE = 200;
const READ_AT_LEAST = 20;

/**
 * Reads runs, newest first, until `wanted` of them match, `examined` were read, or there are no more. Continues after
 * `after`, a position in a listing with the same filter.
 */
export async function scanRuns(
  { runs, clock }: ListingDeps,
  workspaceId: string,
  filter: RunFilter,
  limits: { readonly after?: RunPlace | undefined; readonly wanted?: number; readonly examined?: number } = {},
): Promise<Scan> {
  const { after, wanted = Number.POSITIVE_INFINITY, examined = MAX_EXAMINED } = limits;
  const { queries, placeOf } = orderOf(workspaceId, filter, after);
  const found: { run: Run; place: RunPlace }[] = [];
  const atOnce = Math.min(READ_AT_ONCE, Math.max(wanted, READ_AT_LEAST));
  let place: RunPlace | undefined;
  let left = examined;
  for await (const read of mergedPages(runs, queries, { atOnce, reverse: true })) {
    const page = after === undefined ? read : read.filter((item) => isBehind(placeOf(item), after));
    const heads = await headsOf(runs, workspaceId, filter, page);
    for (const [index, item] of page.entries()) {
      // There is at least one more.
      if (left === 0 || found.length >= wanted) return { found, ...(place && { end: place }) };
      left -= 1;
      place = placeOf(item);
      const run = heads[index] && runFrom(heads[index], clock.now());
      if (run !== undefined && matches(run, filter)) found.push({ run, place });
    }
  }
  return { found };
}

/** Whether a position comes after another one in a listing: newest first, and by id within a millisecond. */
const isBehind = (place: RunPlace, { at, id }: RunPlace): boolean =>
  place.at < at || (place.at === at && hexOf(place.id) < hexOf(id));

/** Returns the matching runs whose ids begin with these digits, newest first. Reads at most 1,000. */
export async function runsWithPrefix(
  { runs, clock }: ListingDeps,
  workspaceId: string,
  prefix: string,
  filter: RunFilter,
): Promise<Run[]> {
  const sk = { beginsWith: digitsOf(prefix) };
  const { items } = await runs.query({ pk: runPartition(workspaceId, digitsOf(prefix)), sk, limit: MAX_EXAMINED });
  const all = items.map((head) => runFrom(head, clock.now())).filter((run) => matches(run, filter));
  return all.sort((a, b) => (a.startedAt < b.startedAt ? 1 : -1));
}

export function matches(run: Run, filter: RunFilter): boolean {
  const { agentName, version, status, scheduleId, triggerSource, tenantId, topLevel, exhausted, from, to } = filter;
  const startedAt = Date.parse(run.startedAt);
  return (
    (agentName === undefined || run.agentName === agentName) &&
    (version === undefined || run.agentVersion === version) &&
    (status === undefined || run.status === status) &&
    (scheduleId === undefined || run.scheduleId === scheduleId) &&
    (triggerSource === undefined || run.triggerSource === triggerSource) &&
    (tenantId === undefined || run.tenantId === tenantId) &&
    (topLevel === undefined || (run.parentRunId === null) === topLevel) &&
    (exhausted === undefined || run.isExhausted === exhausted) &&
    (from === undefined || startedAt >= from) &&
    (to === undefined || startedAt < to)
  );
}

/** Chooses the queries of a listing, which continues after a position: runs of a schedule have an index of their own. */
function orderOf(workspaceId: string, { scheduleId, from, to }: RunFilter, after: RunPlace | undefined) {
  // In some sort keys the id follows the time. All years have four digits.
  const first = from === undefined ? '0' : isoTime(from);
  const last = after?.at ?? (to === undefined ? ':' : `${isoTime(to - 1)}~`);
  const inRange = (query: Query): Query[] => (first > last ? [] : [{ ...query, sk: { between: [first, last] } }]);
  if (scheduleId !== undefined) {
    return {
      queries: inRange({ pk: schedulePartition(workspaceId, scheduleId) }),
      placeOf: ({ sk, run_id }: Item): RunPlace => ({ at: sk, id: run_id as string }),
    };
  }
  return {
    queries: runsByTime(workspaceId).flatMap(inRange),
    placeOf: (head: Item): RunPlace => ({ at: head.gsi2sk!, id: runIdOf(head) }),
  };
}

async function headsOf(
  runs: Deps['runs'],
  workspaceId: string,
  { scheduleId }: RunFilter,
  items: readonly Item[],
): Promise<readonly (Item | undefined)[]> {
  if (scheduleId === undefined) return items;
  return getAll(
    runs,
    items.map(({ run_id }) => headKey(workspaceId, run_id as string)),
  );
}

interface RunPage {
  readonly runs: Run[];
  /** Number of matching runs found so far; the exact total if `isExact`. */
  readonly total: number;
  readonly isExact: boolean;
  readonly nextCursor: string | null;
}

/**
 * Returns a page of a listing, newest first. Without a cursor, reads the newest 1,000 records and counts the matches;
 * with
 * one, reads at most 1,000 further records. Throws INVALID_INPUT for a cursor of another listing.
 */
export async function listRuns(
  deps: ListingDeps,
  workspaceId: string,
  filter: RunFilter,
  { limit, offset = 0, cursor }: { readonly limit: number; readonly offset?: number; readonly cursor?: string },
): Promise<RunPage> {
  const before = cursor === undefined ? undefined : placeIn(cursor, workspaceId, filter);
  const wanted = before && limit + 1;
  const { found, end } = await scanRuns(deps, workspaceId, filter, { after: before?.place, wanted });
  const page = found.slice(offset, offset + limit);
  const isAll = end === undefined;
  const seen = (before?.seen ?? 0) + found.length;
  const total = Math.max(before?.total ?? 0, seen);
  const isExact = isAll || before?.isExact === true;
  const hasMore = found.length > offset + limit;
  const place = hasMore ? page.at(-1)!.place : end;
  const passed = (before?.seen ?? 0) + (hasMore ? offset + limit : found.length);
  return {
    runs: page.map(({ run }) => run),
    total,
    isExact,
    nextCursor: place === undefined ? null : cursorOf({ place, seen: passed, total, isExact }, workspaceId, filter),
  };
}

interface CursorContent {
  readonly place: RunPlace;
  /** Number of matching runs up to this position. */
  readonly seen: number;
  readonly total: number;
  readonly isExact: boolean;
}

/** A cursor includes its workspace and filter, so that it is invalid in any other listing. */
const listingOf = (workspaceId: string, filter: RunFilter) => {
  const members = Object.entries(filter).filter(
    (member): member is [string, string | number | boolean] => member[1] !== undefined,
  );
  return [workspaceId, members.sort()];
};

const cursorOf = ({ place, seen, total, isExact }: CursorContent, workspaceId: string, filter: RunFilter): string =>
  writeCursor(listingOf(workspaceId, filter), [place.at, hexOf(place.id), seen, total, isExact]);

const PLACE = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z(#[0-9a-f-]{36})?$/;

const placeIn = (cursor: string, workspaceId: string, filter: RunFilter): CursorContent =>
  readCursor(cursor, listingOf(workspaceId, filter), ([at, hex, seen, total, isExact]) => {
    const isPlace = typeof at === 'string' && PLACE.test(at) && typeof hex === 'string' && /^[0-9a-f]{32}$/.test(hex);
    if (!isPlace || !Number.isSafeInteger(seen) || !Number.isSafeInteger(total)) return undefined;
    const place = { at, id: runIdOf({ pk: '', sk: hex }) };
    return { place, seen: seen as number, total: total as number, isExact: isExact === true };
  });
