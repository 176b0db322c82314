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
  warnings: z.array(z.string()).describe('Why its runs would fail with the input that it has.'),
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
    summary: 'Run an agent on a cron timetable, or when something posts to a webhook',
    role: 'owner',
    request: { body: newSchedule },
    response: { 201: changed },
    errors: ['NOT_FOUND', 'MISSING_SECRETS'],
  },
  {
    ...row,
    operationId: 'previewSchedule',
    changes: 'nothing',
    method: 'POST',
    storesNothing: true,
    path: '/schedules/preview',
    summary: 'When a cron expression runs next, with what changes of clocks do to it; nothing is stored',
    request: { body: previewQuery },
    response: { 200: schedulePreview },
  },
  {
    ...row,
    operationId: 'listUpcoming',
    method: 'GET',
    // Before the schedule that a path names.
    path: `${SCHEDULES}/upcoming`,
    summary: 'What the schedules of a workspace will run, the first 2,000 times',
    request: { query: upcomingQuery },
    response: { 200: upcoming },
  },
  {
    ...row,
    operationId: 'getSchedule',
    method: 'GET',
    path: SCHEDULE,
    summary: 'A schedule',
    response: { 200: one },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'updateSchedule',
    audit: { request: ['cron_expression', 'timezone', 'enabled', 'agent_version'] },
    method: 'PATCH',
    path: SCHEDULE,
    summary: 'Change, enable or disable a schedule, or the version that it runs',
    role: 'owner',
    request: { body: scheduleChanges },
    response: { 200: changed },
    errors: ['NOT_FOUND', 'MISSING_SECRETS'],
  },
  {
    ...row,
    operationId: 'deleteSchedule',
    method: 'DELETE',
    path: SCHEDULE,
    summary: 'Delete a schedule; its runs and its timeline stay as long as runs do',
    role: 'owner',
    response: { 200: z.object({ deleted: z.literal(true) }) },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'listScheduleEvents',
    method: 'GET',
    path: `${SCHEDULE}/events`,
    summary: 'The timeline of a schedule, newest first',
    request: { query: eventsQuery },
    response: { 200: z.object({ events: z.array(scheduleEvent) }) },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'listScheduleRuns',
    method: 'GET',
    path: `${SCHEDULE}/runs`,
    summary: 'The runs of a schedule, newest first',
    request: { query: runsQuery },
    response: {
      200: z.object({
        runs: z.array(scheduleRun.partial()),
        total: z.int().describe('Of the runs that match; only the newest thousand runs are looked at.'),
      }),
    },
    errors: ['NOT_FOUND'],
  },
]);
