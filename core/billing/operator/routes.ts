import * as z from 'zod';
import { PLAN_NAMES } from '#core/base/plans.ts';
import { defineRoutes } from '#core/http/route.ts';
import { balance } from '../credits/routes.ts';

const workspace = z.object({
  id: z.uuid(),
  slug: z.string(),
  name: z.string(),
  type: z.enum(['personal', 'team']),
  plan: z.enum(PLAN_NAMES).describe("The platform's default plan if the workspace has none of its own."),
  created_at: z.iso.datetime(),
  ...balance,
});

/** `{workspace}` is a slug or an id. See `docs/interface/billing.md#operator`. */
export const operatorRoutes = defineRoutes([
  {
    operationId: 'getOperatorWorkspace',
    method: 'GET',
    path: '/operator/workspaces/{workspace}',
    summary: 'Show a workspace to the operator: plan and balance',
    fn: 'billing',
    auth: 'operator',
    response: { 200: workspace },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'putOperatorPlan',
    audit: { request: ['plan'] },
    method: 'PUT',
    path: '/operator/workspaces/{workspace}/plan',
    summary: 'Give a workspace a plan',
    fn: 'billing',
    auth: 'operator',
    request: { body: z.object({ plan: z.enum(PLAN_NAMES) }) },
    response: { 200: workspace },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'giveOperatorCredits',
    audit: { request: ['id', 'amount_cents'] },
    method: 'POST',
    path: '/operator/workspaces/{workspace}/credits',
    summary: 'Give a workspace credits, once for each id',
    fn: 'billing',
    auth: 'operator',
    request: {
      body: z.object({
        id: z
          .string()
          .regex(/^[\w.:-]{1,100}$/, 'must be 1 to 100 letters, digits and ._:-')
          .describe('Your own: the same id gives nothing again.'),
        amount_cents: z.int().min(1).max(100_000_000),
        note: z.string().trim().min(1).max(200).optional().describe('For the transactions of the workspace.'),
      }),
    },
    response: { 200: workspace, 201: workspace },
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
]);
