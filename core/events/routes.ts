import * as z from 'zod';
import { defineRoutes, raw } from '#core/http/route.ts';
import { tenantHeader } from '#core/http/tenant-id.ts';

/** Kinds of events in a workspace. */
export const EVENT_KINDS = ['run', 'schedule', 'service', 'message', 'task', 'agent'] as const;
export const WORKSPACE_EVENT_ID = /^\d{13}(\.[\w.-]{1,100})?$/;

const event = z.object({
  id: z.string().describe('Send it as `after` or `Last-Event-ID` to resume after this event.'),
  type: z.string(),
  created_at: z.iso.datetime(),
  data: z.record(z.string(), z.unknown()),
});

const headers = z.object({
  accept: z.string().optional().describe('`text/event-stream` streams the events as they happen.'),
  'last-event-id': z.string().optional().describe('The same as `after`, as browsers send it.'),
});

/** Streams last for minutes, so these routes have their own function. */
const row = {
  fn: 'events',
  auth: 'key',
  method: 'GET',
  stream: true,
  alsoRaw: ['text/event-stream'],
} as const;

export const eventRoutes = defineRoutes([
  {
    ...row,
    operationId: 'listRunEvents',
    agents: true,
    path: '/workspaces/{workspace_id}/runs/{run_id}/events',
    summary: 'Stream or list the events of a run: progress, steps, sub-calls and its end',
    request: {
      headers,
      query: z.object({
        after: z
          .string()
          .regex(/^\d{1,8}$/, 'must be the id of an event')
          .optional()
          .describe('ID of the last event received. Default: all events of the run.'),
      }),
    },
    response: {
      200: z.object({
        events: z.array(event),
        next: z.string().describe('Value of `after` for the next page.'),
        is_over: z.boolean().describe('Whether the run has ended, so that no more events follow.'),
      }),
    },
    errors: ['NOT_FOUND', 'CONFLICT', 'RATE_LIMITED'],
  },
  {
    ...row,
    operationId: 'listSessionEvents',
    path: '/workspaces/{workspace_id}/sessions/{session_id}/events',
    summary: 'Stream or list the events of the runs of a session, one run after another',
    request: {
      headers: headers.extend({ 'x-platform-tenant': tenantHeader }),
      query: z.object({
        after: z
          .string()
          .regex(/^\d{1,8}\.\d{1,8}$/, 'must be the id of an event')
          .optional()
          .describe('ID of the last event received, `<message number>.<number>`. Default: all events.'),
      }),
    },
    response: {
      200: z.object({
        events: z.array(event).describe('The events after the cursor, in their order.'),
        next: z.string().describe('Value of `after` for the next page.'),
        is_over: z.boolean().describe('Whether the session was deleted, so that no more events follow.'),
      }),
    },
    errors: ['NOT_FOUND', 'RATE_LIMITED'],
  },
  {
    operationId: 'exportSession',
    method: 'GET',
    fn: 'events',
    auth: 'key',
    stream: true,
    path: '/workspaces/{workspace_id}/sessions/{session_id}/export',
    summary: 'Export a session as JSON lines: first the session, then each message',
    request: { headers: z.object({ 'x-platform-tenant': tenantHeader }) },
    response: { 200: raw('application/x-ndjson') },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'listWorkspaceEvents',
    path: '/workspaces/{workspace_id}/events',
    summary: 'Stream or list the events of a workspace: runs, schedules, services, messages, tasks and agents',
    request: {
      headers,
      query: z.object({
        types: z
          .string()
          .regex(
            new RegExp(`^(${EVENT_KINDS.join('|')})(,(${EVENT_KINDS.join('|')}))*$`),
            `must be of ${EVENT_KINDS.join(', ')}`,
          )
          .default(EVENT_KINDS.join(','))
          .describe('Comma-separated kinds of events to watch.'),
        after: z
          .string()
          .regex(WORKSPACE_EVENT_ID, 'must be the id of an event, or epoch milliseconds')
          .optional()
          .describe('ID of the last event received, or a time at most an hour ago. Default: from now on.'),
      }),
    },
    response: {
      200: z.object({
        events: z.array(event),
        next: z.string().describe('Value of `after` for the next page.'),
        is_over: z.boolean().describe('Always false: the event stream of a workspace never ends.'),
      }),
    },
    errors: ['RATE_LIMITED'],
  },
]);
