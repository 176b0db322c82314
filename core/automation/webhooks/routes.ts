import * as z from 'zod';
import { defineRoutes, raw } from '#core/http/route.ts';
import { runAnswer } from '../schedules/run-answer.ts';

export const webhookRoutes = defineRoutes([
  {
    operationId: 'regenerateWebhook',
    method: 'POST',
    path: '/workspaces/{workspace_id}/schedules/{schedule_id}/regenerate-webhook',
    summary: 'Give a webhook another address; the one before is dead at once',
    fn: 'schedules',
    auth: 'key',
    role: 'owner',
    response: { 200: z.object({ webhook_url: z.string(), message: z.string() }) },
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
]);

/** Routes that run agents, so they need the privileges of `calls`. */
export const webhookDeliveryRoutes = defineRoutes([
  {
    operationId: 'receiveWebhook',
    method: 'POST',
    path: '/webhooks/{schedule_id}/{secret}',
    summary: 'Run the agent of a webhook schedule with the JSON of the body, and wait for its end',
    fn: 'calls',
    auth: 'webhook',
    stream: true,
    request: {
      headers: z.object({
        'idempotency-key': z
          .string()
          .min(1)
          .max(255)
          .optional()
          .describe('A delivery with the same key gets the result of the first one and runs nothing, for 24 hours.'),
      }),
      // Senders use any content type.
      body: { ...raw('application/json'), optional: true },
    },
    response: { 200: runAnswer },
    errors: ['NOT_FOUND', 'FORBIDDEN', 'CONFLICT'],
  },
]);
