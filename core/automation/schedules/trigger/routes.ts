import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';
import { jsonValue, runAnswer } from '../run-answer.ts';

/** These routes run agents, so they need the privileges of `calls`. */
export const scheduleTriggerRoutes = defineRoutes([
  {
    operationId: 'triggerSchedule',
    method: 'POST',
    path: '/workspaces/{workspace_id}/schedules/{schedule_id}/trigger',
    summary: 'Run a schedule now and wait for the result; the body may replace its input',
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
            "Scheduled time of the run (default: now), such as `2026-03-29T01:30Z`. Without an offset, local time in the schedule's time zone.",
          ),
      }),
      body: z.record(z.string(), jsonValue),
    },
    response: { 200: runAnswer },
    errors: ['NOT_FOUND'],
  },
]);
