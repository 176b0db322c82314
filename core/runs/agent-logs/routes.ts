import * as z from 'zod';
import { requestTime } from '#core/http/request-time.ts';
import { defineRoutes } from '#core/http/route.ts';

const executionLog = z.object({
  id: z.uuid(),
  request_id: z.string(),
  agent_id: z.uuid(),
  started_at: z.iso.datetime(),
  completed_at: z.iso.datetime().nullable(),
  duration_ms: z.int().nullable(),
  status: z.enum(['running', 'success', 'error', 'timeout']),
  trigger_source: z.string().describe('`install` for an installation of dependencies, otherwise what started the run.'),
  error_message: z.string().nullable(),
  exit_code: z.int().nullable(),
  stdout: z.string().describe('What its program printed, at most 10 KB.'),
  stderr: z.string().describe('What its program printed to stderr, at most 10 KB.'),
});

export const agentLogRoutes = defineRoutes([
  {
    operationId: 'listAgentLogs',
    method: 'GET',
    path: '/agents/{id}/logs',
    summary: 'List the latest executions of a version, with their logs',
    fn: 'agents',
    auth: 'key',
    role: 'owner',
    request: {
      query: z.object({
        limit: z.coerce.number().int().min(1).max(200).default(50),
        before: requestTime.optional().describe('Only executions that started before this time.'),
      }),
    },
    response: { 200: z.array(executionLog) },
    errors: ['NOT_FOUND'],
  },
]);
