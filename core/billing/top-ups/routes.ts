import * as z from 'zod';
import { defineRoutes, raw } from '#core/http/route.ts';

/** Minimum of one purchase, in US cents. */
const MIN_TOP_UP_CENTS = 500;
const MAX_TOP_UP_CENTS = 1_000_000;

const range = `from ${MIN_TOP_UP_CENTS / 100} to ${MAX_TOP_UP_CENTS / 100} US dollars`;
const centsRange = `from ${MIN_TOP_UP_CENTS} to ${MAX_TOP_UP_CENTS} cents`;
const order = z.object({
  amount_usd: z
    .number()
    .min(MIN_TOP_UP_CENTS / 100, { error: `must be ${range}`, abort: true })
    .max(MAX_TOP_UP_CENTS / 100, { error: `must be ${range}`, abort: true })
    .refine((dollars) => Math.abs(dollars * 100 - Math.round(dollars * 100)) < 1e-6, 'must be a whole number of cents')
    .nullish()
    .describe(`${range}. Either this or \`amount_cents\`.`),
  amount_cents: z
    .int()
    .min(MIN_TOP_UP_CENTS, `must be ${centsRange}`)
    .max(MAX_TOP_UP_CENTS, `must be ${centsRange}`)
    .nullish()
    .describe('Price in US cents: the same as `amount_usd`.'),
});
const checkout = z.object({
  checkout_url: z.url().describe('URL of the payment page, for a browser; valid for two hours.'),
  session_id: z.string(),
});

/** Clients use two paths for the purchase. */
const buying = {
  method: 'POST',
  fn: 'billing',
  auth: 'key',
  role: 'owner',
  request: { body: order },
  response: { 200: checkout },
  errors: ['UNPROCESSABLE'],
} as const;

/** See `docs/interface/billing.md#top-ups`. */
export const topUpRoutes = defineRoutes([
  {
    operationId: 'createCheckout',
    audit: { request: ['amount_cents', 'amount_usd'] },
    path: '/billing/checkout',
    summary: 'Buy credits: returns the URL of the payment page',
    ...buying,
  },
  {
    operationId: 'addCredits',
    audit: { request: ['amount_cents', 'amount_usd'] },
    path: '/billing/add-credits',
    summary: 'The same as /billing/checkout',
    ...buying,
  },
  {
    operationId: 'getCheckout',
    method: 'GET',
    path: '/billing/checkout/{session_id}',
    summary: 'Return page after a payment: books the payment if it was made',
    fn: 'billing',
    auth: 'public',
    response: {
      200: z.object({
        session_id: z.string(),
        status: z.enum(['open', 'processing', 'paid', 'closed']).describe('`paid`: the credits are booked.'),
        amount_cents: z.int(),
      }),
    },
    alsoRaw: ['text/html'],
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'receivePaymentEvent',
    method: 'POST',
    path: '/webhooks/stripe',
    summary: 'Receive events from the payment provider',
    fn: 'billing',
    auth: 'signature',
    request: { body: raw('application/json') },
    response: { 200: z.object({ received: z.literal(true) }) },
  },
]);
