import { httpStatusOf } from '#core/base/errors.ts';
import { type EndStatus, isInstallation } from '#core/base/run-kinds.ts';
import type { Deps } from '#core/ports/deps.ts';
import { mergedPages } from '#core/ports/merged-query.ts';
import { type Item, type Query, queryAll } from '#core/ports/table.ts';
import { runsStartedBetween } from '#core/runs/lookup.ts';
import {
  authorLogQueries,
  authorUsagePartition,
  failedLogQueries,
  rollupPrefix,
  type Totals,
  tenantLogQueries,
  tenantPartition,
  tenantsPartition,
  usagePartition,
} from '#core/runs/usage/rollup.ts';
import { monthOf, type Period } from './period.ts';

/** Sums of one agent's runs on one day. Several roll-ups may have the same agent and day and must be added up. */
export interface Rollup {
  /** `2026-11-21`. */
  readonly day: string;
  readonly agentId: string;
  readonly agentOrg: string;
  readonly agentName: string;
  /** The stored item, including its hours and the counts of `core/runs/usage/outcomes.ts`. */
  readonly totals: Totals & { readonly sk: string; readonly [attribute: string]: unknown };
}

export interface TenantSums {
  readonly tenantId: string;
  readonly calls: number;
  readonly errors: number;
  /** ISO 8601. */
  readonly lastCallAt: string;
}

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

type StoreDeps = Pick<Deps, 'runs' | 'clock' | 'endedRuns'>;

/**
 * The usage of one workspace, and other workspaces' usage of its agents. `core/runs/usage/rollup.ts` documents its
 * storage.
 */
export class UsageStore {
  readonly #deps: StoreDeps;
  readonly #workspaceId: string;

  constructor(deps: StoreDeps, workspaceId: string) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
  }

  /** Reads roll-ups by day, ascending; of one tenant if given. */
  rollups(period: Period, tenantId?: string): Promise<Rollup[]> {
    const id = this.#workspaceId;
    return this.#rollups(tenantId === undefined ? usagePartition(id) : tenantPartition(id, tenantId), period);
  }

  authorRollups(period: Period): Promise<Rollup[]> {
    return this.#rollups(authorUsagePartition(this.#workspaceId), period);
  }

  /**
   * Reads only the roll-ups of one of the workspace's agents (`org/agent`): its own runs and those of other workspaces.
   */
  async ofAgent(agent: string, days: readonly string[]): Promise<Rollup[]> {
    await this.#deps.endedRuns?.settle();
    const partitions = [usagePartition(this.#workspaceId), authorUsagePartition(this.#workspaceId)];
    const found = partitions.flatMap((pk) =>
      days.map((day) =>
        Array.fromAsync(queryAll(this.#deps.runs, { pk, sk: { beginsWith: rollupPrefix(day, agent) } })),
      ),
    );
    return (await Promise.all(found)).flat().map(readRollup);
  }

  async #rollups(pk: string, { days }: Period): Promise<Rollup[]> {
    await this.#deps.endedRuns?.settle();
    const sk = { between: [days[0]!, `${days.at(-1)}$`] } as const;
    return (await Array.fromAsync(queryAll(this.#deps.runs, { pk, sk, limit: 1000 }))).map(readRollup);
  }

  /** Lists the tenants with a call in the period, most calls first. */
  async tenants({ days }: Period): Promise<TenantSums[]> {
    await this.#deps.endedRuns?.settle();
    const sums = new Map<string, TenantSums>();
    const months = Map.groupBy(days, monthOf);
    const sk = { between: [monthOf(days[0]!), `${monthOf(days.at(-1)!)}$`] } as const;
    for await (const item of queryAll(this.#deps.runs, { pk: tenantsPartition(this.#workspaceId), sk, limit: 1000 })) {
      const ofMonth = (months.get(monthOf(item.sk)) ?? []).map((day) => `d${day.slice(8)}`);
      const sum = (what: string) =>
        ofMonth.reduce((all, day) => all + ((item[`${day}_${what}`] as number | undefined) ?? 0), 0);
      const tenantId = item.tenant_id as string;
      const lastCallAt = item.last_call_at as string;
      const before = sums.get(tenantId) ?? { calls: 0, errors: 0, lastCallAt };
      sums.set(tenantId, {
        tenantId,
        calls: before.calls + sum('calls'),
        errors: before.errors + sum('errors'),
        lastCallAt: [lastCallAt, before.lastCallAt].sort()[1]!,
      });
    }
    const called = [...sums.values()].filter(({ calls }) => calls > 0);
    return called.sort((a, b) => b.calls - a.calls || (a.tenantId < b.tenantId ? -1 : 1));
  }

  /** Lists ended runs, including sub-calls, newest first. */
  async logs(period: Period, filter: LogFilter, slice: Slice): Promise<{ entries: LogEntry[]; total: number }> {
    const { tenantId, status } = filter;
    const rollups = await this.rollups(period, tenantId);
    const id = this.#workspaceId;
    if (status !== undefined && status !== 'completed') {
      const entriesOf = (rollup: Rollup) => countOf(rollup) - countOf(rollup, 'completed');
      return pageOfLogs(rollups, filter, slice, { ofDay: this.#entries(failedLogQueries(id)), entriesOf });
    }
    if (tenantId !== undefined) {
      return pageOfLogs(rollups, filter, slice, { ofDay: this.#entries(tenantLogQueries(id, tenantId)) });
    }
    return pageOfLogs(rollups, filter, slice, { ofDay: (day, pageSize) => this.#endedRuns(day, pageSize) });
  }

  /** Lists other workspaces' runs of the workspace's agents, newest first. */
  async authorLogs(period: Period, filter: LogFilter, slice: Slice): Promise<{ entries: LogEntry[]; total: number }> {
    const rollups = await this.authorRollups(period);
    return pageOfLogs(rollups, filter, slice, { ofDay: this.#entries(authorLogQueries(this.#workspaceId)) });
  }

  #entries(all: readonly Query[]): LogSource['ofDay'] {
    const { runs } = this.#deps;
    return async function* ofDay(day, pageSize) {
      const sk = { between: [day, `${day}U`] } as const;
      const queries = all.map((query) => ({ ...query, sk }));
      for await (const page of mergedPages(runs, queries, { atOnce: pageSize, reverse: true })) {
        for (const item of page) yield readEntry(item);
      }
    };
  }

  async *#endedRuns(day: string, pageSize: number): AsyncGenerator<LogEntry> {
    for await (const run of runsStartedBetween(this.#deps, this.#workspaceId, [day, `${day}U`], pageSize)) {
      // Roll-ups count neither unfinished runs (including lost runs before the sweep) nor installations.
      if (run.completedAt === null || isInstallation(run)) continue;
      yield {
        runId: run.id,
        agentOrg: run.agentOrg,
        agentName: run.agentName,
        version: run.agentVersion,
        endpoint: run.endpoint,
        status: run.status as EndStatus,
        httpStatus: httpStatusOf(run.errorCode),
        durationMs: run.durationMs ?? 0,
        tenantId: run.tenantId,
        startedAt: run.startedAt,
      };
    }
  }
}

/** Source of a log's entries. */
interface LogSource {
  /** Yields the entries of a day, newest first, reading pages of this size. */
  readonly ofDay: (day: string, pageSize: number) => AsyncIterable<LogEntry>;
  /** Number of entries that the source has for a roll-up. @default - all its runs */
  readonly entriesOf?: (rollup: Rollup) => number;
}
const MAX_PAGE_SIZE = 1000;

/**
 * Reads one page of a log. Roll-ups tell the number of matching runs of each day: days without a match and days before
 * the
 * offset are not read, and the total is exact.
 */
async function pageOfLogs(
  rollups: readonly Rollup[],
  filter: LogFilter,
  { limit, offset }: Slice,
  { ofDay, entriesOf = countOf }: LogSource,
): Promise<{ entries: LogEntry[]; total: number }> {
  const days = new Map<string, { matching: number; read: number }>();
  for (const rollup of rollups) {
    const { matching, read } = days.get(rollup.day) ?? { matching: 0, read: 0 };
    const isOf = filter.agentName === undefined || filter.agentName === rollup.agentName;
    const more = isOf ? countOf(rollup, filter.status) : 0;
    days.set(rollup.day, { matching: matching + more, read: read + entriesOf(rollup) });
  }
  const total = [...days.values()].reduce((sum, { matching }) => sum + matching, 0);
  const entries: LogEntry[] = [];
  let skipped = 0;
  for (const [day, { matching, read }] of [...days].sort(([a], [b]) => (a < b ? 1 : -1))) {
    if (entries.length === limit) break;
    if (matching === 0) continue;
    if (skipped + matching <= offset) {
      skipped += matching;
      continue;
    }
    let seen = 0;
    const wanted = offset - skipped + limit - entries.length;
    // Enough if the matching entries are spread evenly.
    const pageSize = Math.min(Math.ceil((wanted * read) / matching), MAX_PAGE_SIZE);
    for await (const entry of ofDay(day, pageSize)) {
      if (!matches(entry, filter)) continue;
      seen += 1;
      if (skipped < offset) skipped += 1;
      else entries.push(entry);
      if (seen === matching || entries.length === limit) break;
    }
  }
  return { entries, total };
}

function countOf({ totals }: Rollup, status?: EndStatus): number {
  const { runs = 0, failed = 0, timeout = 0, cancelled = 0 } = totals;
  return { all: runs, completed: runs - failed - timeout - cancelled, failed, timeout, cancelled }[status ?? 'all'];
}

const matches = (entry: LogEntry, { tenantId, agentName, status }: LogFilter): boolean =>
  (tenantId === undefined || entry.tenantId === tenantId) &&
  (agentName === undefined || entry.agentName === agentName) &&
  (status === undefined || entry.status === status);

const readRollup = (item: Item): Rollup => ({
  day: item.sk.slice(0, 10),
  agentId: item.agent_id as string,
  agentOrg: item.agent_org as string,
  agentName: item.agent_name as string,
  totals: item as Rollup['totals'],
});

const readEntry = (item: Item): LogEntry => ({
  runId: item.run_id as string,
  agentOrg: item.agent_org as string,
  agentName: item.agent_name as string,
  version: item.agent_version as string,
  endpoint: item.endpoint as string,
  status: item.status as EndStatus,
  httpStatus: item.http_status as number,
  durationMs: item.duration_ms as number,
  tenantId: (item.tenant_id as string | undefined) ?? null,
  startedAt: item.started_at as string,
});
