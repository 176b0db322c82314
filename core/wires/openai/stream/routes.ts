import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';

export const openAiResponseRoutes = defineRoutes([
  {
    auth: 'key',
    response: { 200: z.looseObject({}) },
    fn: 'events',
    stream: true,
    operationId: 'getOpenAiResponse',
    method: 'GET',
    path: '/openai/v1/responses/{response_id}',
    summary: 'Get a response in the form of OpenAI, or its events',
    request: {
      query: z.object({
        stream: z.enum(['true', 'false']).default('false').describe('Send the events of the response as they happen.'),
        starting_after: z.coerce
          .number()
          .int()
          .min(0)
          .optional()
          .describe('The `sequence_number` of the last event received: only later ones are sent.'),
      }),
    },
    alsoRaw: ['text/event-stream'],
    errors: ['NOT_FOUND', 'RATE_LIMITED'],
  },
]);
