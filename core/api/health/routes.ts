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
    waiting: z.int().describe('Number of runs waiting for a sandbox.'),
    max: z.int(),
    queue_age_ms: z.int().describe('Wait time of the oldest queued run.'),
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
    summary: 'Show the status of the components; the operator also sees process metrics',
    // Reads the same table as the catalog.
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
    summary: 'Prometheus metrics of a local host; on AWS, metrics are in CloudWatch',
    fn: 'meta',
    auth: 'public',
    response: { 200: raw('text/plain') },
    errors: ['UNAUTHORIZED', 'FORBIDDEN', 'NOT_FOUND'],
  },
]);
