import * as z from 'zod';
import type { Json } from '#core/base/json.ts';

/** Any JSON value. Bodies come from `JSON.parse`, so there is nothing to check but that one is there. */
export const jsonValue = z.custom<Json>((value) => value !== undefined, 'must be a JSON value');

/** Of a request that runs a schedule. */
export const runAnswer = z.object({
  run_id: z.uuid(),
  status: z.enum(['success', 'error', 'timeout']),
  duration_ms: z.int().nullable(),
  output: z.unknown(),
  error: z.string().nullable(),
  deduplicated: z.boolean().describe('Whether it is the answer of a run that had begun before.'),
});
