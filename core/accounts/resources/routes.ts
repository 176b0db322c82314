import * as z from 'zod';
import { PLAN_NAMES } from '#core/base/plans.ts';
import { defineRoutes } from '#core/http/route.ts';

export const resourceRoutes = defineRoutes([
  {
    operationId: 'getLimits',
    method: 'GET',
    path: '/workspaces/{workspace_id}/limits',
    summary: 'Show every limit of the workspace and what is used of it',
    fn: 'workspaces',
    auth: 'key',
    response: {
      200: z.object({
        plan: z.enum(PLAN_NAMES),
        limits: z
          .record(
            z.string(),
            z.object({
              used: z.number().nullable().describe('`null` for a limit of one thing, of which nothing is used up.'),
              limit: z.number().nullable().describe('`null` for no limit.'),
            }),
          )
          .describe('By the member of the plan, such as `storage_bytes`.'),
      }),
    },
  },
]);
