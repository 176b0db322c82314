import * as z from 'zod';
import { flag } from '#core/http/flag.ts';
import { defineRoutes } from '#core/http/route.ts';
import { CALL_ANSWERS, CALL_ERRORS, CALL_HEADERS } from '../../calls/routes.ts';

/** A file of its own, since another function serves it: the rows of a file are loaded together. */
export const sessionMessageRoutes = defineRoutes([
  {
    operationId: 'sendSessionMessage',
    method: 'POST',
    path: '/workspaces/{workspace_id}/sessions/{session_id}/messages',
    summary: 'Send a message to a session and wait for the answer of its agent',
    fn: 'calls',
    auth: 'key',
    keyScope: 'run',
    admits: true,
    stream: true,
    request: {
      query: z.object({ verbose: flag.default(false).describe('Also return the output that the agent printed.') }),
      headers: CALL_HEADERS,
      body: z.strictObject({
        input: z.record(z.string(), z.unknown()).optional().describe('Input of the agent.'),
        text: z
          .string()
          .min(1)
          .max(1_000_000)
          .optional()
          .describe('Instead of `input`: the text for the member of the input that takes one.'),
      }),
    },
    response: CALL_ANSWERS,
    alsoRaw: ['text/event-stream'],
    errors: CALL_ERRORS,
  },
]);
