import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';
import { jsonValue, runAnswer } from '../run-answer.ts';

/** Routes that run agents, so they need the privileges of `calls`. */
export const scheduleTriggerRoutes = defineRoutes([
  {
    operationId: 'triggerSchedule',
    method: 'POST',
    path: '/workspaces/{workspace_id}/schedules/{schedule_id}/trigger',
    summary: 'Run a schedule now and wait for its end, with its own input or that of the body',
    fn: 'calls',
    auth: 'key',
    keyScope: 'run',
    role: 'owner',
    stream: true,
    request: {
      query: z.object({
        scheduled_at: z
          .string()
          .max(40)
          .optional()
          .describe(
            "The moment to run it for instead of now: `2026-03-29T01:30Z`, or without an offset a local time of the schedule's zone.",
          ),
      }),
      body: z.record(z.string(), jsonValue),
    },
    response: { 200: runAnswer },
    errors: ['NOT_FOUND'],
  },
]);
