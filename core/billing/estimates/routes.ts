import * as z from 'zod';
import { publicAgent } from '#core/agents/schema.ts';
import { defineRoutes } from '#core/http/route.ts';
import { PROVIDER_KINDS } from '#core/ports/llm.ts';

const provider = z.enum(PROVIDER_KINDS);
const runs = z.int();
const usd = z.number();

/** See `docs/interface/billing.md#estimates`. */
export const estimateRoutes = defineRoutes([
  {
    operationId: 'getCostEstimate',
    method: 'GET',
    path: '/public/agents/{org}/{agent}/{version}/cost-estimate',
    summary: "Estimate the model cost of an agent's runs",
    fn: 'usage',
    auth: 'optional',
    response: {
      200: z.object({
        agent: z.string().describe('`org/agent@v1`.'),
        type: publicAgent.shape.type,
        execution_engine: publicAgent.shape.execution_engine,
        supported_providers: publicAgent.shape.supported_providers,
        estimate: z.object({
          sample_size: z
            .int()
            .describe('Number of runs of all versions in the period; 0 if there are too few to show.'),
          period_days: z.int().optional(),
          avg_cost_usd: usd.optional(),
          p50_cost_usd: usd.optional(),
          p95_cost_usd: usd.optional(),
          avg_input_tokens: z.int().optional(),
          avg_output_tokens: z.int().optional(),
          avg_duration_ms: z.int().optional(),
          success_rate: z.number().optional().describe('Share of the runs that completed, from 0 to 1.'),
          unpriced_runs: z.int().optional().describe('Number of runs with unknown cost, which the amounts exclude.'),
          providers: z
            .array(z.object({ provider, runs, avg_cost_usd: usd, p50_cost_usd: usd, p95_cost_usd: usd }))
            .optional(),
          provider_breakdown: z
            .array(z.object({ provider, model: z.string(), runs, total_cost_usd: usd, avg_cost_usd: usd }))
            .optional(),
          prices_of: z.iso.date().optional().describe("Date of the platform's price table."),
        }),
        metadata: z.object({ request_id: z.string() }),
      }),
    },
    errors: ['NOT_FOUND'],
  },
]);
