import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';
import { ACTIONS, LIMIT_KINDS, WINDOWS } from './policy.ts';

const MIN_LIMIT_USD = 0.01;
const MAX_LIMIT_USD = 10_000_000;

const range = 'must be from 0.01 to 10,000,000 US dollars';
const limit = z
  .number()
  .min(MIN_LIMIT_USD, { error: range, abort: true })
  .max(MAX_LIMIT_USD, { error: range, abort: true })
  .refine((usd) => Math.abs(usd * 100 - Math.round(usd * 100)) < 1e-6, 'must be a whole number of cents');
const action = z
  .enum(ACTIONS)
  .describe('What happens besides alerts. `block_new_runs` and `pause_service` need a hard limit.');
const webhookUrl = z.string().describe('Public https:// URL to which alerts are posted; an empty string for none.');

const newBudget = z.object({
  scope_type: z.enum(['workspace', 'agent']),
  scope_id: z
    .string()
    .max(64)
    .nullish()
    .describe('For an agent: the id of any of its versions; the budget covers all of them.'),
  window: z.enum(WINDOWS).describe('A day, an ISO week from Monday, or a month, in UTC.'),
  soft_limit_usd: limit.nullish().describe('Must be below the hard limit. At least one of the two is required.'),
  hard_limit_usd: limit.nullish(),
  action_on_hard_limit: action.default('alert_only'),
  webhook_url: webhookUrl.nullish(),
});
const changes = z.strictObject({
  soft_limit_usd: limit.nullish().describe('Limit in US dollars. null removes it.'),
  hard_limit_usd: limit.nullish().describe('Limit in US dollars. null removes it.'),
  action_on_hard_limit: action.optional(),
  webhook_url: webhookUrl.nullish(),
});

const usd = z.number();
const percent = z.int().describe('Percent of the limit at which it alerts: 50, 80 or 100.');
const policy = {
  scope_type: z.enum(['workspace', 'agent']),
  agent: z.string().nullable().describe('`org/agent`, all versions; null for the workspace.'),
  window: z.enum(WINDOWS),
};
const window_start = z.iso.datetime();

export const budgetView = z.object({
  id: z.uuid(),
  workspace_id: z.string(),
  ...policy,
  scope_id: z.string(),
  soft_limit_usd: usd.nullable(),
  hard_limit_usd: usd.nullable(),
  action_on_hard_limit: action,
  webhook_url: z.string().nullable(),
  window_start,
  window_end: z.iso.datetime(),
  current_spend_usd: usd.describe(
    'Spend of the window in US dollars: runs that have ended, and services up to a minute ago.',
  ),
  spend: z.object({ models_usd: usd, credits_usd: usd, compute_usd: usd }),
  unpriced_runs: z
    .int()
    .describe('Number of runs in the window that used a model without a known price; the sums exclude its cost.'),
  soft_limit_pct: z.number().nullable(),
  hard_limit_pct: z.number().nullable(),
  thresholds: z.array(
    z.object({ threshold_kind: z.enum(LIMIT_KINDS), threshold_pct: percent, amount_usd: usd, alerted: z.boolean() }),
  ),
  breach_status: z.enum(['none', ...LIMIT_KINDS]),
  burn_rate_usd_per_day: usd.describe(
    'Spend of a day at the pace of this window so far, in US dollars. The pace is measured over at least an hour.',
  ),
  projected_spend_usd: usd.describe('Spend at the end of the window, at the current burn rate, in US dollars.'),
  projected_breach_at: z.iso
    .datetime()
    .nullable()
    .describe(
      'When the hard limit (or the soft limit if there is no hard one) is reached at that rate; null if not in this window.',
    ),
  created_at: z.iso.datetime(),
  updated_at: z.iso.datetime(),
});
const money = z.string().describe('US dollars with two decimals.');
export const budgetAlertView = z.object({
  id: z.uuid(),
  policy_id: z.uuid(),
  severity: z.enum(['info', 'warning', 'critical']),
  message: z.string(),
  threshold_kind: z.enum(LIMIT_KINDS),
  threshold_pct: percent,
  current_spend_usd: money,
  limit_usd: money,
  burn_rate_usd_per_day: money,
  ...policy,
  window_start,
  delivery: z.enum(['none', 'pending', 'sent', 'failed']).describe('`none`: the budget had no webhook_url.'),
  delivery_problem: z.string().nullable(),
  created_at: z.iso.datetime(),
});

const BUDGETS = '/workspaces/{workspace_id}/budgets';
const BUDGET = `${BUDGETS}/{budget_id}` as const;
const one = z.object({ budget: budgetView });
const row = { fn: 'billing', auth: 'key' } as const;

/** See `docs/interface/budgets.md`. */
export const budgetRoutes = defineRoutes([
  {
    ...row,
    operationId: 'listBudgets',
    method: 'GET',
    path: BUDGETS,
    summary: 'List the budgets of a workspace with their spend, oldest first',
    response: { 200: z.object({ budgets: z.array(budgetView) }) },
  },
  {
    ...row,
    operationId: 'createBudget',
    audit: {
      request: ['scope_type', 'scope_id', 'window', 'soft_limit_usd', 'hard_limit_usd', 'action_on_hard_limit'],
      response: { budget_id: 'budget.id' },
    },
    method: 'POST',
    path: BUDGETS,
    summary: 'Create a budget for the daily, weekly or monthly spend of a workspace or one of its agents',
    role: 'owner',
    request: { body: newBudget },
    response: { 201: one },
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
  {
    ...row,
    operationId: 'getBudget',
    method: 'GET',
    path: BUDGET,
    summary: 'Show a budget with its spend',
    response: { 200: one },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'updateBudget',
    audit: { request: ['soft_limit_usd', 'hard_limit_usd', 'action_on_hard_limit'] },
    method: 'PATCH',
    path: BUDGET,
    summary: 'Change limits, action and address of a budget; its scope and window are fixed',
    role: 'owner',
    request: { body: changes },
    response: { 200: one },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'deleteBudget',
    method: 'DELETE',
    path: BUDGET,
    summary: 'Delete a budget',
    role: 'owner',
    response: { 200: z.object({ deleted: z.literal(true), budget_id: z.uuid() }) },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'listBudgetAlerts',
    method: 'GET',
    path: '/workspaces/{workspace_id}/budget-alerts',
    summary: 'List the alerts of budgets, newest first',
    request: {
      query: z.object({
        limit: z.coerce.number().int().min(1).max(200).default(50),
        offset: z.coerce.number().int().min(0).max(10_000).default(0),
      }),
    },
    response: { 200: z.object({ alerts: z.array(budgetAlertView) }) },
  },
]);
