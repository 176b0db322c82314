import * as z from 'zod';
import { END_STATUSES } from '#core/base/run-kinds.ts';
import { defineRoutes } from '#core/http/route.ts';

const days = z.coerce.number().int().min(1).max(365).default(30).describe('Number of UTC days, including today.');
const tenantId = z.string().min(1).max(128).optional().describe('Only calls with this `X-Platform-Tenant`.');
const granularity = z.enum(['day', 'hour']).default('day');
const paging = {
  limit: z.coerce.number().int().min(1).max(200).default(50),
  offset: z.coerce.number().int().min(0).max(10_000).default(0),
};
const logFilters = {
  agent_name: z.string().min(1).max(100).optional(),
  status: z.enum(END_STATUSES).optional(),
};

const period = { period_start: z.iso.datetime(), period_end: z.iso.datetime() };
const sums = {
  total_calls: z.int().describe('Number of calls; sub-calls are part of the call above them.'),
  total_errors: z.int().describe('Number of calls that did not complete.'),
  credits_cents: z.number(),
};
const point = z.object({
  date: z
    .string()
    .describe('`2026-11-21` for a day, `2026-11-21T07:00:00Z` for an hour; days and hours without calls are included.'),
  calls: z.int(),
  errors: z.int(),
  credits_cents: z.number(),
});
const agentSums = z.object({
  agent_id: z.uuid().describe('The version that was called last.'),
  org_slug: z.string(),
  agent_name: z.string(),
  calls: z.int(),
  errors: z.int(),
  avg_duration_ms: z.int(),
  credits_cents: z.number(),
});
/** Model usage of a workspace's own runs, including sub-calls. */
const models = z.object({
  input_tokens: z.int(),
  output_tokens: z.int(),
  models_usd: z.number().describe('Model cost at the prices of the day.'),
});
const logEntry = z.object({
  request_id: z.string(),
  run_id: z.uuid(),
  agent: z.string().describe('`org/name`.'),
  version: z.string(),
  endpoint: z.string(),
  status: z.string(),
  http_status: z.int().describe('Status of the answer to a call that is not streamed.'),
  duration_ms: z.int(),
  created_at: z.iso.datetime(),
});
const total = z.int().describe('Number of entries in the period, on all pages.');

const ends = {
  total_runs: z.int().describe('Runs that have ended, sub-calls included.'),
  completed: z.int(),
  failed: z.int(),
  timeout: z.int(),
  cancelled: z.int(),
};
const latency = z.int().describe('Duration percentiles in milliseconds, accurate to 19 %; 0 if there are none.');
const counters = {
  ...ends,
  success_rate: z.number().describe('Percent of all runs; 0 without runs.'),
  error_rate: z.number().describe('Percent of all runs that failed or ran out of time.'),
  p50_latency_ms: latency,
  p95_latency_ms: latency,
  avg_latency_ms: z.int(),
  runs_per_day: z.number(),
};
const percentiles = { p50_latency_ms: z.int().nullable(), p95_latency_ms: z.int().nullable() };

export const usageRoutes = defineRoutes([
  {
    operationId: 'getUsage',
    method: 'GET',
    path: '/usage',
    summary: 'Usage of the workspace',
    fn: 'usage',
    auth: 'key',
    request: { query: z.object({ days, tenant_id: tenantId }) },
    response: {
      200: z.object({
        ...sums,
        calls_remaining: z.int().describe('Remaining calls of prompt agents in the plan today.'),
        ...models.shape,
        unpriced_runs: z
          .int()
          .describe('Number of runs that used a model without a known price, whose cost `models_usd` excludes.'),
        cache_read_tokens: z.int().describe("Part of the input that was read from providers' caches."),
        cache_write_tokens: z.int().describe("Part of the input that was written to providers' caches."),
        ...period,
      }),
    },
  },
  {
    operationId: 'getUsageTimeseries',
    method: 'GET',
    path: '/usage/timeseries',
    summary: 'Usage of the workspace, by day or hour',
    fn: 'usage',
    auth: 'key',
    request: { query: z.object({ days, tenant_id: tenantId, granularity }) },
    response: {
      200: z.object({
        points: z.array(point.extend(models.partial().shape).describe('Tokens and cost are only available by day.')),
        ...period,
      }),
    },
  },
  {
    operationId: 'getUsageBreakdown',
    method: 'GET',
    path: '/usage/breakdown',
    summary: 'Usage of the workspace, by agent',
    fn: 'usage',
    auth: 'key',
    request: { query: z.object({ days, tenant_id: tenantId }) },
    response: { 200: z.object({ by_agent: z.array(agentSums.extend(models.shape)), ...period }) },
  },
  {
    operationId: 'listUsageTenants',
    method: 'GET',
    path: '/usage/tenants',
    summary: 'Usage of the workspace by tenant, most calls first',
    fn: 'usage',
    auth: 'key',
    request: { query: z.object({ days, ...paging }) },
    response: {
      200: z.object({
        tenants: z.array(
          z.object({ tenant_id: z.string(), calls: z.int(), errors: z.int(), last_call_at: z.iso.datetime() }),
        ),
        total,
      }),
    },
  },
  {
    operationId: 'listUsageLogs',
    method: 'GET',
    path: '/usage/logs',
    summary: 'Ended runs of the workspace, including sub-calls, newest first',
    fn: 'usage',
    auth: 'key',
    request: { query: z.object({ days, tenant_id: tenantId, ...logFilters, ...paging }) },
    response: { 200: z.object({ logs: z.array(logEntry.extend({ tenant_id: z.string().nullable() })), total }) },
  },
  {
    operationId: 'getComputeUsage',
    method: 'GET',
    path: '/usage/compute',
    summary: 'Executions and compute time of agents with a sandbox, including sub-calls, and runtime of services',
    fn: 'usage',
    auth: 'key',
    request: { query: z.object({ days }) },
    response: {
      200: z.object({
        total_executions: z.int(),
        executions_remaining: z.int().describe('Remaining calls of agents with a sandbox in the plan today.'),
        total_compute_seconds: z.number(),
        ...period,
        by_agent: z.array(
          z.object({
            agent_id: z.uuid().describe('The version that was called last.'),
            agent_name: z.string(),
            executions: z.int(),
            compute_seconds: z.number(),
          }),
        ),
        total_service_minutes: z.number().describe('Runtime of all instances of services together.'),
        by_service: z.array(
          z.object({
            service_id: z.uuid(),
            service_name: z.string(),
            agent_name: z.string(),
            runtime_minutes: z.number(),
          }),
        ),
      }),
    },
  },
  {
    operationId: 'getWorkspaceMetrics',
    method: 'GET',
    path: '/workspaces/{workspace_id}/metrics/dashboard',
    summary: "Outcomes and durations of the workspace's runs: in total, by agent, by day and by hour",
    fn: 'usage',
    auth: 'key',
    request: { query: z.object({ days, agent_name: z.string().min(1).max(100).optional() }) },
    response: {
      200: z.object({
        overview: z.object(counters),
        agents: z.array(
          z.object({
            agent_name: z.string(),
            agent_id: z.uuid().describe('The version that was called last.'),
            org_slug: z.string(),
            latest_version: z
              .string()
              .nullable()
              .describe('Null if the agent was deleted or belongs to another workspace.'),
            ...counters,
            top_error: z.string().nullable().describe('The code of the error that ended most runs.'),
            trigger_sources: z.record(z.string(), z.int()).describe('Number of runs by trigger.'),
          }),
        ),
        daily_series: z.array(z.object({ date: z.iso.date(), ...ends, ...percentiles })),
        hourly_series: z
          .array(z.object({ date: z.iso.datetime(), total_runs: ends.total_runs, ...percentiles }))
          .describe('The hours of the last 7 days of the period, also those without a run.'),
        period: z.object({ days: z.int(), start: z.iso.datetime(), end: z.iso.datetime() }),
        total_agents: z.int(),
      }),
    },
  },
  {
    operationId: 'getAuthorUsage',
    method: 'GET',
    path: '/author-usage',
    summary: "Other workspaces' usage of your agents",
    fn: 'usage',
    auth: 'key',
    request: { query: z.object({ days }) },
    response: { 200: z.object({ ...sums, ...period }) },
  },
  {
    operationId: 'getAuthorUsageTimeseries',
    method: 'GET',
    path: '/author-usage/timeseries',
    summary: "Other workspaces' usage of your agents, by day or hour",
    fn: 'usage',
    auth: 'key',
    request: { query: z.object({ days, granularity }) },
    response: { 200: z.object({ points: z.array(point), ...period }) },
  },
  {
    operationId: 'getAuthorUsageBreakdown',
    method: 'GET',
    path: '/author-usage/breakdown',
    summary: "Other workspaces' usage of your agents, by agent",
    fn: 'usage',
    auth: 'key',
    request: { query: z.object({ days }) },
    response: { 200: z.object({ by_agent: z.array(agentSums), ...period }) },
  },
  {
    operationId: 'listAuthorUsageLogs',
    method: 'GET',
    path: '/author-usage/logs',
    summary: "Other workspaces' calls of your agents, newest first, without their inputs and outputs",
    fn: 'usage',
    auth: 'key',
    request: { query: z.object({ days, ...logFilters, ...paging }) },
    response: { 200: z.object({ logs: z.array(logEntry), total }) },
  },
]);
