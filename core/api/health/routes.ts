import * as z from 'zod';
import { defineRoutes, raw } from '#core/http/route.ts';

const bytes = z.int();
const ms = z.number();
const system = z.object({
  version: z.string(),
  node: z.string(),
  started_at: z.iso.datetime(),
  sandbox: z.object({
    kind: z.string(),
    problem: z.string().nullable(),
    running: z.int(),
    waiting: z.int().describe('Runs that wait for a sandbox.'),
    max: z.int(),
    queue_age_ms: z.int().describe('How long the one that waits longest has waited.'),
  }),
  disk: z.object({ free_bytes: bytes, size_bytes: bytes, database_bytes: bytes }),
  event_loop_delay_ms: z.object({ p50: ms, p99: ms, max: ms }),
  memory_bytes: bytes,
});

/** See `docs/interface/health.md`. */
export const healthRoutes = defineRoutes([
  {
    operationId: 'getDetailedHealth',
    method: 'GET',
    path: '/health/detailed',
    summary: 'Which parts of the platform work; for the operator also what its process knows of itself',
    // It reads the table that the catalog reads, too.
    fn: 'catalog',
    auth: 'public',
    response: {
      200: z.object({
        status: z.enum(['healthy', 'degraded', 'unhealthy']),
        services: z.array(
          z.object({
            name: z.string(),
            status: z.enum(['operational', 'degraded', 'outage']),
            latency_ms: z.number().optional(),
          }),
        ),
        system: system.optional().describe('Only for the operator of a local host.'),
      }),
    },
  },
]);

export const metricsRoutes = defineRoutes([
  {
    operationId: 'getMetrics',
    method: 'GET',
    path: '/metrics',
    summary: 'Metrics of a local host for Prometheus; those on AWS are in CloudWatch',
    fn: 'meta',
    auth: 'public',
    response: { 200: raw('text/plain') },
    errors: ['UNAUTHORIZED', 'FORBIDDEN', 'NOT_FOUND'],
  },
]);
