import * as z from 'zod';
import { QUEUE_RULES } from '#core/manifest/queue-rules.ts';

const time = z.iso.datetime();

/** The rule that keeps a run from beginning or continuing, as answers show it. */
export const heldByView = z.object({
  rule: z.enum(QUEUE_RULES).describe('The rule of the agent or schedule that holds it.'),
  key: z
    .string()
    .nullable()
    .describe('Its key, masked: the beginning of a long value, and of its hash. null: there is none.'),
  limit: z.int().describe('Number of runs that the rule allows: at once, or in its time.'),
  seconds: z.int().nullable().describe('Time of the rule. null: `concurrency` has none.'),
  priority: z.int().describe('Among the runs that wait for a place, what is higher begins first.'),
  begins_at: time.nullable().describe('When it begins, if no other rule holds it then. null: when others have ended.'),
  until: time.describe('When it ends as `timeout` if its turn has not come.'),
});
