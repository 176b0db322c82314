import * as z from 'zod';
import { MAX_WAIT_SECONDS } from '#core/base/time-limits.ts';
import { requestTime } from '#core/http/request-time.ts';
import { defineRoutes } from '#core/http/route.ts';
import { ENTRY_KINDS, SENT_KINDS } from './entry.ts';

const position = z.int().min(1).max(9999).describe('Place in the list of what the program did, from 1, without gaps.');
const text = z.string().max(4000).describe('Name of the step or event, or the question; empty for others.');
const number = z
  .int()
  .min(1)
  .max(9999)
  .describe('From 1, among those of the same kind and text, in the order in which they began.');

const entry = z.object({
  position,
  kind: z
    .enum(ENTRY_KINDS)
    .describe('`suspension`: the program ended, because it waits. `start`: it was started again.'),
  text,
  number,
  status: z
    .enum(['done', 'failed', 'waiting', 'suspended', 'started'])
    .describe('`waiting`: it began to wait here. How that ended is another entry.'),
  value: z.unknown().describe('The value of the step, or what ended the wait; null for entries that are not `done`.'),
  error: z
    .object({
      code: z.literal('TIMEOUT').describe('The time is over.'),
      message: z.string().describe('What did not happen in time.'),
    })
    .optional()
    .describe('Why the wait ended without a value. Only with `failed`.'),
});

const STEPS = '/workspaces/{workspace_id}/runs/{run_id}/steps';
const row = { fn: 'calls', auth: 'key', agents: true, stream: true, path: STEPS } as const;

/** What `wait` of a request says. */
export const waitBody = z.strictObject({
  seconds: z
    .int()
    .min(1)
    .max(MAX_WAIT_SECONDS)
    .optional()
    .describe('How long the run waits: for `sleep`; for others at most, and by default for as long as it may.'),
  until: requestTime.optional().describe('Only for `sleep`: the same as a time.'),
  options: z
    .array(z.string().min(1).max(1000))
    .min(2)
    .max(20)
    .optional()
    .describe('Only for `ask_human`: answers to choose from.'),
  schema: z
    .record(z.string(), z.unknown())
    .optional()
    .describe('Only for `ask_human`: JSON Schema of the answer, in place of `options`, up to 32 KB.'),
});

export const stepRoutes = defineRoutes([
  {
    ...row,
    operationId: 'listRunSteps',
    method: 'GET',
    summary: 'List what the program of a run did before; only with the key of that run',
    request: {
      query: z.object({
        after: z.coerce.number().int().min(0).max(9999).default(0).describe('Only entries after this position.'),
      }),
    },
    response: {
      200: z.object({
        steps: z.array(entry).describe('In the order in which their values were known.'),
        has_more: z.boolean(),
      }),
    },
    errors: ['NOT_FOUND', 'UNPROCESSABLE'],
  },
  {
    ...row,
    operationId: 'putRunStep',
    method: 'POST',
    summary: 'Keep what the program of a run did, once; only with the key of that run',
    maxBody: {
      bytes: 1024 * 1024,
      hint: 'Let the step return less, or write it to storage and return its key.',
    },
    request: {
      body: z.strictObject({
        position,
        kind: z.enum(SENT_KINDS).describe('What it did. `suspension`: it ends, because it waits.'),
        text,
        number,
        value: z.unknown().optional().describe('For `step` and for a `sleep` that is over: any JSON value.'),
        wait: waitBody.optional().describe('For `ask_human`, `wait_for_event` and `sleep`: the program waits.'),
      }),
    },
    response: { 200: entry },
    errors: ['NOT_FOUND', 'CONFLICT', 'UNPROCESSABLE', 'RATE_LIMITED'],
  },
]);
