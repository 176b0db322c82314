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
    summary: 'Set the plan of a workspace',
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
    summary: 'Grant credits to a workspace, once for each id',
    fn: 'billing',
    auth: 'operator',
    request: {
      body: z.object({
        id: z
          .string()
          .regex(/^[\w.:-]{1,100}$/, 'must be 1 to 100 letters, digits and ._:-')
          .describe('Idempotency key of the grant: repeating an id grants nothing.'),
        amount_cents: z.int().min(1).max(100_000_000),
        note: z.string().trim().min(1).max(200).optional().describe("Description in the workspace's transactions."),
      }),
    },
    response: { 200: workspace, 201: workspace },
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
]);
