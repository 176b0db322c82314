import { callsLeft } from '#core/accounts/limits/admission.ts';
import { currentVersions } from '#core/agents/store.ts';
import { requestIdOf } from '#core/http/request-id.ts';
import type { Handlers } from '#core/http/route.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { LogEntry } from './log-pages.ts';
import { agentMetricsOf, countersOf, dailySeriesOf, hourlySeriesOf } from './metrics.ts';
import { lastDays, type Period } from './period.ts';
import type { Rollup } from './rollups.ts';
import type { usageRoutes } from './routes.ts';
import { readServiceMinutes } from './service-minutes.ts';
import { UsageStore } from './store.ts';
import { breakdownOf, computeOf, modelsOf, pointsOf, sumOf } from './sums.ts';

type UsageDeps = Pick<Deps, 'main' | 'runs' | 'counters' | 'clock' | 'config'>;

type UsageHandlers = Handlers<typeof usageRoutes>;
type AuthorOperation = Extract<keyof UsageHandlers, `${string}AuthorUsage${string}`>;

export const usageHandlers = (deps: UsageDeps): UsageHandlers => ({ ...ownUsage(deps), ...authorUsage(deps) });

const periodOf = ({ clock }: UsageDeps, days: number): Period => lastDays(clock.now(), days);

/** Limits log periods to the retention of run records, which is shorter than the retention of the roll-ups. */
const logPeriodOf = (deps: UsageDeps, days: number): Period =>
  periodOf(deps, Math.min(days, deps.config.runRetentionDays));

/** Handlers for a workspace's own runs. */
function ownUsage(deps: UsageDeps): Omit<UsageHandlers, AuthorOperation> {
  return {
    async getUsage({ caller: { workspace }, query }) {
      const span = periodOf(deps, query.days);
      const [rollups, { remaining }] = await Promise.all([
        new UsageStore(deps, workspace.id).rollups(span, query.tenant_id),
        callsLeft(deps, workspace),
      ]);
      return {
        status: 200,
        body: {
          ...sums(rollups),
          calls_remaining: remaining,
          ...modelsOf(rollups),
          unpriced_runs: sumOf(rollups, 'unpriced_runs'),
          cache_read_tokens: sumOf(rollups, 'cache_read_tokens'),
          cache_write_tokens: sumOf(rollups, 'cache_write_tokens'),
          ...bounds(span),
        },
      };
    },

    async getUsageTimeseries({ caller, query }) {
      const span = periodOf(deps, query.days);
      const rollups = await new UsageStore(deps, caller.workspace.id).rollups(span, query.tenant_id);
      const points = pointsOf(rollups, span, query.granularity, modelsOf);
      return { status: 200, body: { points, ...bounds(span) } };
    },

    async getUsageBreakdown({ caller, query }) {
      const span = periodOf(deps, query.days);
      const rollups = await new UsageStore(deps, caller.workspace.id).rollups(span, query.tenant_id);
      return { status: 200, body: { by_agent: breakdownOf(rollups, modelsOf), ...bounds(span) } };
    },

    async listUsageTenants({ caller, query: { days, limit, offset } }) {
      const tenants = await new UsageStore(deps, caller.workspace.id).tenants(periodOf(deps, days));
      const shown = tenants.slice(offset, offset + limit).map(({ tenantId, calls, errors, lastCallAt }) => ({
        tenant_id: tenantId,
        calls,
        errors,
        last_call_at: lastCallAt,
      }));
      return { status: 200, body: { tenants: shown, total: tenants.length } };
    },

    async listUsageLogs({ caller, query }) {
      const filter = { tenantId: query.tenant_id, agentName: query.agent_name, status: query.status };
      const store = new UsageStore(deps, caller.workspace.id);
      const { entries, total } = await store.logs(logPeriodOf(deps, query.days), filter, query);
      const logs = entries.map((entry) => ({ ...logEntry(entry), tenant_id: entry.tenantId }));
      return { status: 200, body: { logs, total } };
    },

    async getComputeUsage({ caller: { workspace }, query }) {
      const span = periodOf(deps, query.days);
      const [rollups, { remaining }, services] = await Promise.all([
        new UsageStore(deps, workspace.id).rollups(span),
        callsLeft(deps, workspace, 'sandbox'),
        readServiceMinutes(deps, workspace.id, span),
      ]);
      return {
        status: 200,
        body: {
          total_executions: sumOf(rollups, 'executions'),
          executions_remaining: remaining,
          total_compute_seconds: sumOf(rollups, 'compute_ms') / 1000,
          ...bounds(span),
          by_agent: computeOf(rollups),
          total_service_minutes: minutes(services.reduce((sum, { ms }) => sum + ms, 0)),
          by_service: services.map(({ serviceId, serviceName, agentName, ms }) => ({
            service_id: serviceId,
            service_name: serviceName,
            agent_name: agentName,
            runtime_minutes: minutes(ms),
          })),
        },
      };
    },

    async getWorkspaceMetrics({ caller: { workspace }, query: { days, agent_name } }) {
      const span = periodOf(deps, days);
      const all = await new UsageStore(deps, workspace.id).rollups(span);
      const rollups = all.filter(({ agentName }) => agent_name === undefined || agentName === agent_name);
      const agents = agentMetricsOf(rollups, days);
      const own = agents.filter(({ org_slug }) => org_slug === workspace.slug).map(({ agent_name }) => agent_name);
      const latest = await currentVersions(deps, workspace.id, own);
      return {
        status: 200,
        body: {
          overview: countersOf(rollups, days),
          agents: agents.map((agent) => ({
            ...agent,
            latest_version: agent.org_slug === workspace.slug ? (latest.get(agent.agent_name) ?? null) : null,
          })),
          daily_series: dailySeriesOf(rollups, span),
          hourly_series: hourlySeriesOf(rollups, span),
          period: { days, start: isoTime(span.start), end: isoTime(span.end) },
          total_agents: agents.length,
        },
      };
    },
  };
}

/** Handlers for other workspaces' runs of a workspace's agents. */
function authorUsage(deps: UsageDeps): Pick<UsageHandlers, AuthorOperation> {
  return {
    async getAuthorUsage({ caller, query }) {
      const span = periodOf(deps, query.days);
      const rollups = await new UsageStore(deps, caller.workspace.id).authorRollups(span);
      return { status: 200, body: { ...sums(rollups), ...bounds(span) } };
    },

    async getAuthorUsageTimeseries({ caller, query }) {
      const span = periodOf(deps, query.days);
      const rollups = await new UsageStore(deps, caller.workspace.id).authorRollups(span);
      return { status: 200, body: { points: pointsOf(rollups, span, query.granularity), ...bounds(span) } };
    },

    async getAuthorUsageBreakdown({ caller, query }) {
      const span = periodOf(deps, query.days);
      const rollups = await new UsageStore(deps, caller.workspace.id).authorRollups(span);
      return { status: 200, body: { by_agent: breakdownOf(rollups), ...bounds(span) } };
    },

    async listAuthorUsageLogs({ caller, query }) {
      const filter = { agentName: query.agent_name, status: query.status };
      const store = new UsageStore(deps, caller.workspace.id);
      const { entries, total } = await store.authorLogs(logPeriodOf(deps, query.days), filter, query);
      return { status: 200, body: { logs: entries.map(logEntry), total } };
    },
  };
}

/** Rounded to thousandths. */
const minutes = (ms: number): number => Math.round(ms / 60) / 1000;

const bounds = ({ start, end }: Period) => ({ period_start: isoTime(start), period_end: isoTime(end) });

const sums = (rollups: readonly Rollup[]) => ({
  total_calls: sumOf(rollups, 'calls'),
  total_errors: sumOf(rollups, 'errors'),
  credits_cents: sumOf(rollups, 'credits_cents'),
});

const logEntry = (entry: LogEntry) => ({
  request_id: requestIdOf(entry.runId),
  run_id: entry.runId,
  agent: `${entry.agentOrg}/${entry.agentName}`,
  version: entry.version,
  endpoint: entry.endpoint,
  status: entry.status,
  http_status: entry.httpStatus,
  duration_ms: entry.durationMs,
  created_at: entry.startedAt,
});
