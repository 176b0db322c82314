import * as z from 'zod';
import { PLAN_NAMES } from '#core/base/plans.ts';
import { defineRoutes } from '#core/http/route.ts';

export const resourceRoutes = defineRoutes([
  {
    operationId: 'getLimits',
    method: 'GET',
    path: '/workspaces/{workspace_id}/limits',
    summary: 'Show all limits of the workspace and their usage',
    fn: 'workspaces',
    auth: 'key',
    response: {
      200: z.object({
        plan: z.enum(PLAN_NAMES),
        limits: z
          .record(
            z.string(),
            z.object({
              used: z
                .number()
                .nullable()
                .describe(
                  'How much of the limit is used. null: the limit is about a single thing, so nothing is used up.',
                ),
              limit: z.number().nullable().describe('The maximum that the plan allows. null: there is none.'),
            }),
          )
          .describe('By the member of the plan, such as `storage_bytes`.'),
      }),
    },
  },
]);
