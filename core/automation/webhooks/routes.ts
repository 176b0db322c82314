import * as z from 'zod';
import { defineRoutes, raw } from '#core/http/route.ts';
import { runAnswer } from '../schedules/run-answer.ts';

export const webhookRoutes = defineRoutes([
  {
    operationId: 'regenerateWebhook',
    method: 'POST',
    path: '/workspaces/{workspace_id}/schedules/{schedule_id}/regenerate-webhook',
    summary: 'Rotate the URL of a webhook; the old URL stops working immediately',
    fn: 'schedules',
    auth: 'key',
    role: 'owner',
    response: { 200: z.object({ webhook_url: z.string(), message: z.string() }) },
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
]);

/** These routes run agents, so they need the privileges of `calls`. */
export const webhookDeliveryRoutes = defineRoutes([
  {
    operationId: 'receiveWebhook',
    method: 'POST',
    path: '/webhooks/{schedule_id}/{secret}',
    summary: 'Run the agent of a webhook schedule with the JSON body as input, and wait for the result',
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
          .describe('Repeated deliveries with the same key return the first result for 24 hours without a new run.'),
      }),
      // Senders use any content type.
      body: { ...raw('application/json'), optional: true },
    },
    response: { 200: runAnswer },
    errors: ['NOT_FOUND', 'FORBIDDEN', 'CONFLICT'],
  },
]);
