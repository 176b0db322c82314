import * as z from 'zod';
import { defineRoutes, raw } from '../http/route.ts';

const warning = z.object({
  code: z.enum(['LOW_CONFIDENCE', 'TRUNCATED', 'DEPRECATED_FIELD', 'VALIDATION_SKIPPED']),
  field: z.string().optional(),
  message: z.string(),
});

export const callRoutes = defineRoutes([
  {
    operationId: 'callAgent',
    method: 'POST',
    path: '/{org}/{agent}/{version}/{endpoint}',
    summary: 'Call an agent and wait for its answer',
    fn: 'calls',
    auth: 'key',
    stream: true,
    request: {
      query: z.object({ verbose: z.stringbool().default(false).describe('Also answer what the agent printed.') }),
      headers: z.object({
        'x-platform-deadline-ms': z.coerce
          .number()
          .int()
          .positive()
          .optional()
          .describe('Answer by then, in epoch milliseconds.'),
      }),
      body: raw('application/json', 'multipart/form-data'),
    },
    response: {
      200: z.object({
        data: z.unknown().describe("The agent's output."),
        warnings: z.array(warning).optional(),
        metadata: z.object({
          request_id: z.string(),
          processing_time_ms: z.int(),
          version: z.string(),
          execution_time_ms: z.int(),
          stdout: z.string().optional(),
          stderr: z.string().optional(),
        }),
      }),
    },
    errors: ['MISSING_SECRETS', 'INSUFFICIENT_CREDITS', 'NOT_FOUND', 'UNPROCESSABLE', 'SANDBOX_ERROR', 'TIMEOUT'],
  },
]);
