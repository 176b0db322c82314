import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';
import { VERSION_TEXT, VERSION_TEXT_RULE } from '#core/manifest/channel-name.ts';
import { EXHAUSTED, listedRun, runFilter, TOP_LEVEL } from '../routes.ts';
import { MAX_BULK_IDS } from './bulk.ts';

const action = z.enum(['cancel', 'replay']);
const filter = z.strictObject({
  ...runFilter,
  top_level: z.boolean().optional().describe(`${TOP_LEVEL} A replay without it repeats no sub-calls.`),
  exhausted: z.boolean().optional().describe(EXHAUSTED),
});
const time = z.iso.datetime();
const storedFilter = filter.extend({ from: time.optional(), to: time.optional() });

const bulk = z.object({
  id: z.uuid(),
  action,
  status: z.enum(['running', 'completed', 'aborted', 'failed']),
  message: z.string().nullable().describe('Reason why it failed or ended early; null if it did not.'),
  filter: storedFilter
    .nullable()
    .describe('Including the time window that applies; null if the runs are listed by id.'),
  agent_version: z.string().nullable(),
  total: z.int().describe('Number of selected runs at the start.'),
  total_is_exact: z.boolean(),
  done: z.int().describe('Runs that were cancelled, or that a new run was started for.'),
  skipped: z.int().describe('Runs that had ended before they could be cancelled.'),
  failed: z.int().describe('Runs that could not be repeated.'),
  failures: z
    .array(z.object({ run_id: z.uuid(), code: z.string(), message: z.string() }))
    .describe('Runs that could not be repeated, at most 20 of them.'),
  created_by: z.string(),
  created_at: time,
  updated_at: time,
  ended_at: time.nullable(),
});

const row = { fn: 'runs', auth: 'key', errors: ['NOT_FOUND', 'CONFLICT'] } as const;
const BULK = '/workspaces/{workspace_id}/bulk/{bulk_id}';

export const bulkRoutes = defineRoutes([
  {
    ...row,
    operationId: 'createBulk',
    keyScope: 'run',
    method: 'POST',
    path: '/workspaces/{workspace_id}/bulk',
    summary: 'Cancel or replay many runs in the background, or preview the selection',
    request: {
      body: z.strictObject({
        action,
        run_ids: z.array(z.uuid()).min(1).max(MAX_BULK_IDS).optional(),
        filter: filter.optional().describe('Instead of `run_ids`. Without `from`, the last 7 days.'),
        agent_version: z
          .string()
          .regex(VERSION_TEXT, VERSION_TEXT_RULE)
          .optional()
          .describe("For a replay: the version to run in place of each run's own."),
        dry_run: z
          .boolean()
          .default(false)
          .describe('Only returns the number of selected runs and the newest of them.'),
      }),
    },
    response: {
      200: z.object({
        action,
        dry_run: z.literal(true),
        filter: storedFilter.nullable(),
        total: z.int(),
        total_is_exact: z.boolean().describe('False: there are more than `total`.'),
        sample: z.array(listedRun).describe('The newest of the runs that are meant, at most 10.'),
      }),
      202: bulk,
    },
  },
  {
    ...row,
    operationId: 'getBulk',
    method: 'GET',
    path: BULK,
    summary: 'Show the progress of a bulk action',
    response: { 200: bulk },
  },
  {
    ...row,
    operationId: 'abortBulk',
    keyScope: 'run',
    method: 'DELETE',
    path: BULK,
    summary: 'Abort a bulk action; completed work and the runs that it has started are kept',
    response: { 200: bulk },
  },
]);
