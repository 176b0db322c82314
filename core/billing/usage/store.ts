import { httpStatusOf } from '#core/base/errors.ts';
import { lazy } from '#core/base/lazy.ts';
import { type EndStatus, isInstallation } from '#core/base/run-kinds.ts';
import type { Deps } from '#core/ports/deps.ts';
import { mergedPages } from '#core/ports/merged-query.ts';
import { type Item, type Query, queryAll } from '#core/ports/table.ts';
import { runsByTime } from '#core/runs/items.ts';
import { runsStartedBetween } from '#core/runs/lookup.ts';
import {
  authorLogQueries,
  authorUsagePartition,
  failedLogQueries,
  rollupPrefix,
  tenantLogQueries,
  tenantPartition,
  tenantsPartition,
  usagePartition,
} from '#core/runs/usage/rollup.ts';
import type { LogEntry, LogFilter, LogPage, LogSource, Slice, SortKeys } from './log-pages.ts';
import { monthOf, type Period } from './period.ts';
import { countOf, type Rollup } from './rollups.ts';

export interface TenantSums {
  readonly tenantId: string;
  readonly calls: number;
  readonly errors: number;
  /** ISO 8601. */
  readonly lastCallAt: string;
}

/** Loaded lazily: all that counts runs reads sums, few requests read logs, and smaller functions start faster. */
const logPages = lazy(() => import('./log-pages.ts'));

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
  async logs(period: Period, filter: LogFilter, slice: Slice): Promise<LogPage> {
    const { tenantId, status } = filter;
    const rollups = await this.rollups(period, tenantId);
    const id = this.#workspaceId;
    const { pageOfLogs } = await logPages();
    if (status !== undefined && status !== 'completed') {
      const entriesOf = (rollup: Rollup) => countOf(rollup) - countOf(rollup, 'completed');
      return pageOfLogs(rollups, filter, slice, { ...this.#log(failedLogQueries(id)), entriesOf });
    }
    if (tenantId !== undefined) return pageOfLogs(rollups, filter, slice, this.#log(tenantLogQueries(id, tenantId)));
    return pageOfLogs(rollups, filter, slice, {
      between: (range, pageSize) => this.#endedRuns(range, pageSize),
      countIn: this.#counterOf(runsByTime(id)),
      hasOthers: true,
    });
  }

  /** Lists other workspaces' runs of the workspace's agents, newest first. */
  async authorLogs(period: Period, filter: LogFilter, slice: Slice): Promise<LogPage> {
    const rollups = await this.authorRollups(period);
    const { pageOfLogs } = await logPages();
    return pageOfLogs(rollups, filter, slice, this.#log(authorLogQueries(this.#workspaceId)));
  }

  #log(all: readonly Query[]): LogSource {
    const { runs } = this.#deps;
    return {
      async *between(range, pageSize) {
        const queries = all.map((query) => ({ ...query, sk: { between: range } }));
        for await (const page of mergedPages(runs, queries, { atOnce: pageSize, reverse: true })) {
          for (const item of page) yield readEntry(item);
        }
      },
      countIn: this.#counterOf(all),
    };
  }

  #counterOf(all: readonly Query[]): LogSource['countIn'] {
    const { runs } = this.#deps;
    if (runs.count === undefined) return undefined;
    return async (range) => {
      const counts = await runs.count!(all.map((query): Query => ({ ...query, sk: { between: range } })));
      return counts.reduce((sum, n) => sum + n);
    };
  }

  async *#endedRuns(range: SortKeys, pageSize: number): AsyncGenerator<LogEntry> {
    for await (const run of runsStartedBetween(this.#deps, this.#workspaceId, range, pageSize)) {
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
