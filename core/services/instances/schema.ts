import * as z from 'zod';
import type { BootDocument, InstanceReport } from '#core/ports/service-host.ts';

/*
 * JSON messages of instances on other machines. Members are named as in `core/ports/service-host.ts`, because only the
 * platform's own programs read them. An instance may be older than the API for the lifetime of its service, so later
 * versions only add members.
 */

const time = z.int().nonnegative();
const count = z.int().nonnegative();
/** Small enough for exact sums. */
const failures = count.max(1_000_000_000);
const variables = z.record(z.string(), z.string());
const blob = z.object({ key: z.string(), sha256: z.string().optional(), url: z.string().optional() });

/** {@link BootDocument}. */
export const bootDocumentShape: z.ZodType<BootDocument, BootDocument> = z.object({
  serviceId: z.string(),
  workspaceId: z.string(),
  revision: count,
  agent: z.string(),
  app: z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('argv'), argv: z.array(z.string()) }),
    z.object({ kind: z.literal('shell'), line: z.string() }),
    z.object({ kind: z.literal('loop'), inputSchema: z.record(z.string(), z.unknown()).nullable() }),
  ]),
  env: variables,
  secrets: variables,
  port: z.int(),
  bundle: blob.optional(),
  layer: blob.optional(),
  egress: z.union([z.literal(['open', 'none']), z.object({ allow: z.array(z.string()) })]),
  egressTargets: z.object({ targets: z.array(z.string()), privateRanges: z.array(z.string()) }).optional(),
  limits: z.object({ memoryBytes: count, diskBytes: count, fileBytes: count, processes: count }),
});

/** {@link InstanceReport}. `revision` is 0 before the instance has its document. */
const instanceReportShape: z.ZodType<InstanceReport, InstanceReport> = z.object({
  type: z.literal('instance'),
  serviceId: z.string().max(64),
  instanceId: z.string().min(1).max(64),
  revision: count,
  sequence: count,
  at: time,
  startedAt: time,
  phase: z.enum(['starting', 'ready', 'waiting', 'stopping']),
  isWorker: z.boolean(),
  restarts: failures,
  failures,
  steadyAt: time.nullable(),
  lastEnd: z.object({ at: time, exitCode: z.int(), message: z.string().max(2000) }).nullable(),
});

export const reportsShape = z.object({ reports: z.array(instanceReportShape).max(100) });
