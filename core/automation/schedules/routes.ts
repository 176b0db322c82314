import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';
import {
  eventsQuery,
  listQuery,
  newSchedule,
  previewQuery,
  runsQuery,
  scheduleChanges,
  scheduleEvent,
  schedulePreview,
  scheduleRun,
  scheduleView,
  upcoming,
  upcomingQuery,
} from './schema.ts';

const SCHEDULES = '/workspaces/{workspace_id}/schedules';
const SCHEDULE = `${SCHEDULES}/{schedule_id}` as const;
const one = z.object({ schedule: scheduleView });
const changed = one.extend({
  warnings: z.array(z.string()).describe('Reasons why runs would fail with the current input.'),
});
const row = { fn: 'schedules', auth: 'key' } as const;

export const scheduleRoutes = defineRoutes([
  {
    ...row,
    operationId: 'listSchedules',
    method: 'GET',
    path: SCHEDULES,
    summary: 'List the schedules of a workspace, newest first',
    request: { query: listQuery },
    response: { 200: z.object({ schedules: z.array(scheduleView), total: z.int() }) },
  },
  {
    ...row,
    operationId: 'createSchedule',
    audit: {
      request: ['agent', 'agent_name', 'agent_id', 'agent_version', 'cron_expression', 'timezone', 'webhook'],
      response: { schedule_id: 'schedule.id' },
    },
    method: 'POST',
    path: SCHEDULES,
    summary: 'Create a schedule that runs an agent on a cron expression or a webhook',
    role: 'owner',
    request: { body: newSchedule },
    response: { 201: changed },
    errors: ['NOT_FOUND', 'MISSING_SECRETS', 'CONFLICT'],
  },
  {
    ...row,
    operationId: 'previewSchedule',
    changes: 'nothing',
    method: 'POST',
    storesNothing: true,
    path: '/schedules/preview',
    summary: 'Preview the next run times of a cron expression, including clock changes',
    request: { body: previewQuery },
    response: { 200: schedulePreview },
  },
  {
    ...row,
    operationId: 'listUpcoming',
    method: 'GET',
    // Must precede the route with the schedule ID in its path.
    path: `${SCHEDULES}/upcoming`,
    summary: 'List the upcoming runs of all schedules, up to 2,000',
    request: { query: upcomingQuery },
    response: { 200: upcoming },
  },
  {
    ...row,
    operationId: 'getSchedule',
    method: 'GET',
    path: SCHEDULE,
    summary: 'Show a schedule',
    response: { 200: one },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'updateSchedule',
    audit: { request: ['cron_expression', 'timezone', 'enabled', 'agent_version'] },
    method: 'PATCH',
    path: SCHEDULE,
    summary: 'Change, enable or disable a schedule',
    role: 'owner',
    request: { body: scheduleChanges },
    response: { 200: changed },
    errors: ['NOT_FOUND', 'MISSING_SECRETS', 'CONFLICT'],
  },
  {
    ...row,
    operationId: 'deleteSchedule',
    method: 'DELETE',
    path: SCHEDULE,
    summary: 'Delete a schedule; its runs and timeline are kept for the usual retention period',
    role: 'owner',
    response: { 200: z.object({ deleted: z.literal(true) }) },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'listScheduleEvents',
    method: 'GET',
    path: `${SCHEDULE}/events`,
    summary: 'List the timeline of a schedule, newest first',
    request: { query: eventsQuery },
    response: { 200: z.object({ events: z.array(scheduleEvent) }) },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'listScheduleRuns',
    method: 'GET',
    path: `${SCHEDULE}/runs`,
    summary: 'List the runs of a schedule, newest first',
    request: { query: runsQuery },
    response: {
      200: z.object({
        runs: z.array(scheduleRun.partial()),
        total: z.int().describe('Number of matching runs among the latest 1,000 runs.'),
      }),
    },
    errors: ['NOT_FOUND'],
  },
]);
