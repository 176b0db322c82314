import * as z from 'zod';
import type { Json } from '#core/base/json.ts';

/** Any JSON value. Bodies come from `JSON.parse`, so only presence needs a check. */
export const jsonValue = z.custom<Json>((value) => value !== undefined, 'must be a JSON value');

/** Response to a request that runs a schedule. */
export const runAnswer = z.object({
  run_id: z.uuid(),
  status: z
    .enum(['success', 'error', 'timeout', 'queued'])
    .describe('`queued`: the run of a durable agent is not over yet; its record will show its end.'),
  duration_ms: z.int().nullable(),
  output: z.unknown(),
  error: z.string().nullable(),
  deduplicated: z.boolean().describe('Whether this is the answer of an earlier run.'),
});
