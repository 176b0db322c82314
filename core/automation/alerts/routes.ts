import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';

export const alertRoutes = defineRoutes([
  {
    operationId: 'sendTestAlert',
    method: 'POST',
    path: '/workspaces/{workspace_id}/schedules/{schedule_id}/test-alert',
    summary: 'Send a test alert to the alert URL of a schedule, and report whether it was delivered',
    fn: 'schedules',
    auth: 'key',
    role: 'owner',
    response: { 200: z.object({ success: z.boolean() }) },
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
]);
