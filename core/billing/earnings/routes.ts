import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';

const sums = {
  calls: z.int(),
  price_cents: z.int().describe('What callers paid, in US cents.'),
  fee_cents: z.int().describe('What the platform keeps of the price, in US cents.'),
  earned_cents: z.int(),
};

/** See `docs/interface/billing.md#earnings`. */
export const earningRoutes = defineRoutes([
  {
    operationId: 'getEarnings',
    method: 'GET',
    path: '/billing/earnings',
    summary: "Show the earnings from other workspaces' paid calls of the workspace's agents",
    fn: 'billing',
    auth: 'key',
    role: 'owner',
    request: {
      query: z.object({
        month: z
          .string()
          .regex(/^\d{4}-(0[1-9]|1[0-2])$/, 'must be a month such as 2026-11')
          .optional()
          .describe('The UTC month of `entries`. By default the current one.'),
        limit: z.coerce
          .number()
          .int()
          .min(1)
          .max(10_000)
          .optional()
          .describe('Maximum number of entries. Default: 50, for CSV 10,000.'),
        offset: z.coerce.number().int().min(0).max(1_000_000).default(0),
        format: z.enum(['json', 'csv']).default('json'),
      }),
    },
    response: {
      200: z.object({
        currency: z.literal('usd'),
        total_cents: z.int().describe('Sum of what was earned in all months, in US cents.'),
        by_month: z.array(z.object({ month: z.string(), agent: z.string(), ...sums })),
        entries: z.array(
          z.object({
            run_id: z.uuid(),
            agent: z.string(),
            price_cents: z.int(),
            fee_cents: z.int(),
            earned_cents: z.int(),
            created_at: z.iso.datetime(),
          }),
        ),
      }),
    },
    alsoRaw: ['text/csv'],
  },
]);
