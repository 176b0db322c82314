import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';

const days = z.coerce
  .number()
  .int()
  .min(1)
  .max(365)
  .default(30)
  .describe('How many UTC days to look back upon, today being the last of them.');
const tenantId = z.string().min(1).max(128).optional().describe('Only what this `X-Platform-Tenant` caused.');
const granularity = z.enum(['day', 'hour']).default('day');
const paging = {
  limit: z.coerce.number().int().min(1).max(200).default(50),
  offset: z.coerce.number().int().min(0).max(10_000).default(0),
};
const logFilters = {
  agent_name: z.string().min(1).max(100).optional(),
  status: z.enum(['completed', 'failed', 'timeout', 'cancelled']).optional(),
};

const period = { period_start: z.iso.datetime(), period_end: z.iso.datetime() };
const sums = {
  total_calls: z.int().describe('Calls; those that agents make below them are part of them.'),
  total_errors: z.int().describe('Calls that did not complete.'),
  credits_cents: z.number(),
};
const timeseries = z.object({
  points: z.array(
    z.object({
      date: z.string().describe('`2026-11-21`, and of hours `2026-11-21T07:00:00Z`; none is left out.'),
      calls: z.int(),
      errors: z.int(),
      credits_cents: z.number(),
    }),
  ),
  ...period,
});
const breakdown = z.object({
  by_agent: z.array(
    z.object({
      agent_id: z.uuid().describe('Of the version that was called last.'),
      org_slug: z.string(),
      agent_name: z.string(),
      calls: z.int(),
      errors: z.int(),
      avg_duration_ms: z.int(),
      credits_cents: z.number(),
    }),
  ),
  ...period,
});
const logEntry = z.object({
  request_id: z.string(),
  run_id: z.uuid(),
  agent: z.string().describe('`org/name`.'),
  version: z.string(),
  endpoint: z.string(),
  status: z.string(),
  http_status: z.int().describe('Of the answer to a plain call.'),
  duration_ms: z.int(),
  created_at: z.iso.datetime(),
});
const total = z.int().describe('How many there are in the period, over all pages.');

export const usageRoutes = defineRoutes([
  {
    operationId: 'getUsage',
    method: 'GET',
    path: '/usage',
    summary: 'What the workspace called, in sum',
    fn: 'usage',
    auth: 'key',
    request: { query: z.object({ days, tenant_id: tenantId }) },
    response: {
      200: z.object({
        ...sums,
        calls_remaining: z.int().describe('Calls of prompt agents that the plan still has today.'),
        input_tokens: z.int(),
        output_tokens: z.int(),
        ...period,
      }),
    },
  },
  {
    operationId: 'getUsageTimeseries',
    method: 'GET',
    path: '/usage/timeseries',
    summary: 'What the workspace called, by day or hour',
    fn: 'usage',
    auth: 'key',
    request: { query: z.object({ days, tenant_id: tenantId, granularity }) },
    response: { 200: timeseries },
  },
  {
    operationId: 'getUsageBreakdown',
    method: 'GET',
    path: '/usage/breakdown',
    summary: 'What the workspace called, by agent',
    fn: 'usage',
    auth: 'key',
    request: { query: z.object({ days, tenant_id: tenantId }) },
    response: { 200: breakdown },
  },
  {
    operationId: 'listUsageTenants',
    method: 'GET',
    path: '/usage/tenants',
    summary: 'What the workspace called, by tenant, the busiest first',
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
    summary: 'The runs of the workspace that have ended, sub-calls among them, newest first',
    fn: 'usage',
    auth: 'key',
    request: { query: z.object({ days, tenant_id: tenantId, ...logFilters, ...paging }) },
    response: { 200: z.object({ logs: z.array(logEntry.extend({ tenant_id: z.string().nullable() })), total }) },
  },
  {
    operationId: 'getComputeUsage',
    method: 'GET',
    path: '/usage/compute',
    summary: 'What agents with a sandbox took, sub-calls among them',
    fn: 'usage',
    auth: 'key',
    request: { query: z.object({ days }) },
    response: {
      200: z.object({
        total_executions: z.int(),
        executions_remaining: z.int().describe('Calls of agents with a sandbox that the plan still has today.'),
        total_compute_seconds: z.number(),
        ...period,
        by_agent: z.array(
          z.object({
            agent_id: z.uuid().describe('Of the version that was called last.'),
            agent_name: z.string(),
            executions: z.int(),
            compute_seconds: z.number(),
          }),
        ),
      }),
    },
  },
  {
    operationId: 'getAuthorUsage',
    method: 'GET',
    path: '/author-usage',
    summary: "What others called of the workspace's agents, in sum",
    fn: 'usage',
    auth: 'key',
    request: { query: z.object({ days }) },
    response: { 200: z.object({ ...sums, ...period }) },
  },
  {
    operationId: 'getAuthorUsageTimeseries',
    method: 'GET',
    path: '/author-usage/timeseries',
    summary: "What others called of the workspace's agents, by day or hour",
    fn: 'usage',
    auth: 'key',
    request: { query: z.object({ days, granularity }) },
    response: { 200: timeseries },
  },
  {
    operationId: 'getAuthorUsageBreakdown',
    method: 'GET',
    path: '/author-usage/breakdown',
    summary: "What others called of the workspace's agents, by agent",
    fn: 'usage',
    auth: 'key',
    request: { query: z.object({ days }) },
    response: { 200: breakdown },
  },
  {
    operationId: 'listAuthorUsageLogs',
    method: 'GET',
    path: '/author-usage/logs',
    summary: "Others' calls of the workspace's agents, newest first, without what they sent and got",
    fn: 'usage',
    auth: 'key',
    request: { query: z.object({ days, ...logFilters, ...paging }) },
    response: { 200: z.object({ logs: z.array(logEntry), total }) },
  },
]);
