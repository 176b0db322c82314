import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';
import { runSummary, traceContent, traceStep, waterfallStep } from '../routes.ts';

const time = z.iso.datetime();

const share = z.object({
  id: z.uuid(),
  run_id: z.uuid(),
  created_by: z.string(),
  created_at: time,
  expires_at: time,
});

const SHARES = '/workspaces/{workspace_id}/runs/{run_id}/shares';
/** The parameter is the secret part of a link. */
const SHARED = '/public/shares/{share}';
const row = { fn: 'runs', auth: 'key', errors: ['NOT_FOUND', 'CONFLICT'] } as const;
const open = { fn: 'runs', auth: 'public', method: 'GET', errors: ['NOT_FOUND'] } as const;

export const shareRoutes = defineRoutes([
  {
    ...row,
    operationId: 'createRunShare',
    audit: { request: ['expires_in_days'], response: { run_id: 'run_id', share_id: 'id' } },
    method: 'POST',
    path: SHARES,
    summary: 'Create a read-only link to a run, for people without an account',
    role: 'owner',
    request: {
      body: z.strictObject({
        expires_in_days: z
          .int()
          .min(1)
          .max(30)
          .default(7)
          .describe('Days for which the link is valid. It ends earlier if the run is removed earlier.'),
      }),
    },
    response: { 201: share.extend({ url: z.string().describe('The link. Only this answer shows it.') }) },
  },
  {
    ...row,
    operationId: 'listRunShares',
    method: 'GET',
    path: SHARES,
    summary: 'List the valid links to a run',
    response: { 200: z.object({ shares: z.array(share) }) },
  },
  {
    ...row,
    operationId: 'revokeRunShare',
    method: 'DELETE',
    path: `${SHARES}/{share_id}`,
    summary: 'Revoke a link to a run',
    role: 'owner',
    response: { 200: z.object({ deleted: z.literal(true), id: z.string() }) },
  },
  {
    ...open,
    operationId: 'getSharedRun',
    path: SHARED,
    summary: 'Show the run of a link, with its input and output',
    response: {
      200: z.object({
        run: runSummary.extend({
          completed_at: time.nullable(),
          error_code: z.string().nullable(),
          input_tokens: z.int().nullable(),
          output_tokens: z.int().nullable(),
          llm_provider: z.string().nullable(),
          llm_model: z.string().nullable(),
          input_data: z.unknown(),
          output_data: z.unknown(),
        }),
        expires_at: time,
      }),
    },
  },
  {
    ...open,
    operationId: 'listSharedRunSteps',
    path: `${SHARED}/steps`,
    summary: 'List the steps of the run of a link, even while it runs',
    response: {
      200: z.object({
        has_content: z.boolean().describe('Whether content is stored for the events of the run.'),
        steps: z.array(waterfallStep.omit({ cost_usd: true })),
      }),
    },
  },
  {
    ...open,
    operationId: 'listSharedRunEvents',
    path: `${SHARED}/events`,
    summary: 'List the events of the run of a link, with the content of its steps',
    request: {
      query: z.object({
        limit: z.coerce.number().int().min(1).max(1000).default(500),
        cursor: z.coerce.number().int().min(0).default(0).describe('`next_cursor` of the previous page.'),
      }),
    },
    response: {
      200: z.object({
        events: z.array(
          traceStep.omit({ cost_usd: true }).extend({ sequence_no: z.int(), content: traceContent.optional() }),
        ),
        total: z.int(),
        next_cursor: z.string().nullable(),
      }),
    },
  },
]);
