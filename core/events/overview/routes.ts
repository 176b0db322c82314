import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';

const time = z.iso.datetime();
const isExact = z.boolean().describe('False if there are more than the count.');
const run = z.object({
  id: z.uuid(),
  agent_name: z.string(),
  agent_version: z.string(),
  started_at: time,
});

/** Routes that cover all workspaces of the user. See `docs/interface/workspaces.md#overview`. */
export const overviewRoutes = defineRoutes([
  {
    operationId: 'getOverview',
    method: 'GET',
    path: '/users/me/overview',
    summary: 'Show the activity in all of your workspaces',
    fn: 'runs',
    auth: 'key',
    response: {
      200: z.object({
        workspaces: z.array(
          z.object({
            id: z.uuid(),
            slug: z.string(),
            name: z.string(),
            type: z.enum(['personal', 'team']),
            role: z.enum(['owner', 'member']),
            running: z.object({
              count: z.int(),
              is_exact: isExact,
              runs: z.array(run.extend({ trigger_source: z.string() })).describe('The newest of these runs.'),
            }),
            failed: z.object({
              count: z.int().describe('Number of runs started in the last 24 hours that failed or timed out.'),
              is_exact: isExact,
              runs: z
                .array(run.extend({ status: z.enum(['failed', 'timeout']) }))
                .describe('The newest of these runs.'),
            }),
            next_due: z
              .array(z.object({ schedule_id: z.uuid(), agent_name: z.string(), at: time }))
              .describe('The next runs of schedules, soonest first.'),
            unread_messages: z.object({
              count: z.int(),
              is_exact: isExact,
              seen_until: time.describe('Time up to which you have seen the messages. Initially the time you joined.'),
            }),
          }),
        ),
        failed_since: time,
      }),
    },
  },
  {
    operationId: 'findMyRuns',
    method: 'GET',
    path: '/users/me/runs/{prefix}',
    summary: 'Find a run in all of your workspaces by its ID, request ID, or a prefix of either',
    fn: 'runs',
    auth: 'key',
    response: {
      200: z.object({
        runs: z
          .array(
            run.extend({
              status: z.string(),
              trigger_source: z.string(),
              workspace: z.object({ id: z.uuid(), slug: z.string(), name: z.string() }),
            }),
          )
          .describe('The runs that match, newest first, at most 20.'),
      }),
    },
    errors: ['NOT_FOUND'],
  },
]);
