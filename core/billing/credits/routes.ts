import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';

const cents = z.int();
const currency = z.literal('usd');
const transaction = z.object({
  id: z.uuid(),
  type: z.enum(['top_up', 'charge', 'refund']),
  transaction_type: z
    .enum(['top_up', 'charge', 'refund', 'top_up_refund', 'dispute', 'dispute_release'])
    .describe('Cause of the movement, more specific than `type`.'),
  amount_cents: cents.describe('Negative if credits were deducted.'),
  balance_after_cents: cents,
  debt_after_cents: cents,
  description: z.string(),
  reference_id: z
    .string()
    .nullable()
    .describe("The run of a charge or its refund; the purchase or the operator's grant of other credits."),
  receipt_url: z.url().nullable().describe("The payment provider's receipt."),
  created_at: z.iso.datetime(),
});
/** A balance of credits. */
export const balance = {
  balance_cents: cents,
  debt_cents: cents.describe(
    'Amount by which refunds to the payer and disputes exceeded the balance. It blocks paid calls until later credits cover it.',
  ),
  currency,
};
const page = z.object({
  limit: z.coerce.number().int().min(1).max(200).default(50),
  offset: z.coerce.number().int().min(0).max(10_000).default(0),
});

/** See `docs/interface/billing.md`. Routes apply to the workspace in `X-Workspace-Id`, by default the caller's own. */
export const creditRoutes = defineRoutes([
  {
    operationId: 'getBalance',
    method: 'GET',
    path: '/billing/balance',
    summary: 'The balance of credits',
    fn: 'billing',
    auth: 'key',
    response: { 200: z.object(balance) },
  },
  {
    operationId: 'getCredits',
    method: 'GET',
    path: '/billing/credits',
    summary: 'The balance of credits, with the latest transactions',
    fn: 'billing',
    auth: 'key',
    response: { 200: z.object({ ...balance, recent_transactions: z.array(transaction) }) },
  },
  {
    operationId: 'listTransactions',
    method: 'GET',
    path: '/billing/transactions',
    summary: 'List all transactions of credits, newest first',
    fn: 'billing',
    auth: 'key',
    request: { query: page },
    response: { 200: z.array(transaction) },
  },
  {
    operationId: 'listBillingHistory',
    method: 'GET',
    path: '/billing/history',
    summary: 'The same as /billing/transactions',
    fn: 'billing',
    auth: 'key',
    request: { query: page },
    response: { 200: z.array(transaction) },
  },
]);
