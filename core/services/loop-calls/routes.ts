import * as z from 'zod';
import { callRoutes } from '#core/execution/calls/routes.ts';
import { defineRoutes, raw } from '#core/http/route.ts';

const { response, alsoRaw, errors } = callRoutes.find(
  (row): row is Extract<(typeof callRoutes)[number], { operationId: 'callAgent' }> => row.operationId === 'callAgent',
)!;

/** For instances of loops, on both hosts (`docs/interface/service-instances.md#loops`). */
export const loopCallRoutes = defineRoutes([
  {
    operationId: 'callLoop',
    method: 'POST',
    path: '/runner/services/{service_id}/calls',
    summary: 'Call the agent of a loop service with a request to its URL',
    fn: 'calls',
    auth: 'instance',
    stream: true,
    request: {
      headers: z.object({
        accept: z.string().optional(),
        prefer: z.string().optional(),
        'idempotency-key': z.string().min(1).max(255).optional(),
      }),
      body: { ...raw('application/json'), optional: true },
    },
    response,
    alsoRaw,
    errors: [...errors, 'FORBIDDEN'],
  },
]);
