import * as z from 'zod';
import { END_STATUSES, TRIGGERS } from '#core/base/run-kinds.ts';
import { agentName } from '#core/http/agent-name.ts';
import { defineRoutes } from '#core/http/route.ts';
import { FORMATS, RUN_EVENTS } from './destination.ts';

const MAX_FILTER = 50;
const list = <T extends z.ZodType>(item: T, about: string) =>
  z.array(item).max(MAX_FILTER, `must have at most ${MAX_FILTER} entries`).describe(about);

const url = z.string().describe('Public https:// URL to which events of runs are posted.');
const format = z
  .enum(FORMATS)
  .describe('Form of the body: `standard` as Standard Webhooks, or `cloudevents` as structured CloudEvents JSON.');
const enabled = z.boolean().describe('Whether anything is posted.');
const events = list(z.enum(RUN_EVENTS), 'Events that are posted. An empty list: all.');
const agents = list(agentName, 'Agents whose runs are posted, as `org/agent`. An empty list: all.');
const statuses = list(z.enum(END_STATUSES), 'Statuses of ended runs that are posted. An empty list: all.');
const triggers = list(z.enum(TRIGGERS), 'Triggers of runs that are posted. An empty list: all.');
const subCalls = z.boolean().describe('Whether runs that other runs called are posted, too.');
const includeOutput = z.boolean().describe('Whether the body has the output of the run, if it has at most 32 KB.');

const destination = z.object({
  id: z.uuid(),
  url,
  format,
  enabled,
  disabled_reason: z.string().nullable().describe('Why the platform disabled it; null if it did not.'),
  events,
  agents,
  statuses,
  trigger_sources: triggers,
  include_sub_calls: subCalls,
  include_output: includeOutput,
  created_at: z.iso.datetime(),
  updated_at: z.iso.datetime(),
});

const entry = z.object({
  id: z.string().describe('The `webhook-id` of all its tries.'),
  run_id: z.uuid().nullable().describe('null for a test.'),
  event: z.enum(RUN_EVENTS),
  status: z.enum(['pending', 'delivered', 'failed']).describe('`pending`: it is tried, or tried again.'),
  tries: z.int().describe('Number of tries so far.'),
  problem: z.string().nullable().describe('Why the last try failed; null if it did not.'),
  created_at: z.iso.datetime(),
  updated_at: z.iso.datetime(),
  next_try_at: z.iso.datetime().nullable().describe('Time of the next try; null if there is none.'),
});

const DESTINATIONS = '/workspaces/{workspace_id}/destinations';
const DESTINATION = `${DESTINATIONS}/{destination_id}` as const;
const row = { fn: 'schedules', auth: 'key' } as const;
const one = z.object({ destination });
const AUDITED = ['format', 'enabled', 'events', 'agents', 'include_sub_calls', 'include_output'] as const;

/** See `docs/interface/destinations.md`. */
export const destinationRoutes = defineRoutes([
  {
    ...row,
    operationId: 'listDestinations',
    method: 'GET',
    path: DESTINATIONS,
    summary: 'List the destinations to which events of runs are posted, oldest first',
    response: { 200: z.object({ destinations: z.array(destination) }) },
  },
  {
    ...row,
    operationId: 'createDestination',
    audit: { request: [...AUDITED], response: { destination_id: 'destination.id' } },
    method: 'POST',
    path: DESTINATIONS,
    summary: 'Post the ends of runs, and what they ask, to an address',
    role: 'owner',
    request: {
      body: z.strictObject({
        url,
        format: format.default('standard'),
        enabled: enabled.default(true),
        events: events.default([]),
        agents: agents.default([]),
        statuses: statuses.default([]),
        trigger_sources: triggers.default([]),
        include_sub_calls: subCalls.default(false),
        include_output: includeOutput.default(false),
      }),
    },
    response: { 201: one },
    errors: ['CONFLICT'],
  },
  {
    ...row,
    operationId: 'getDestination',
    method: 'GET',
    path: DESTINATION,
    summary: 'Show a destination',
    response: { 200: one },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'updateDestination',
    audit: { request: [...AUDITED] },
    method: 'PATCH',
    path: DESTINATION,
    summary: 'Change a destination, or enable it again',
    role: 'owner',
    request: {
      body: z.strictObject({
        url: url.optional(),
        format: format.optional(),
        enabled: enabled.optional(),
        events: events.optional(),
        agents: agents.optional(),
        statuses: statuses.optional(),
        trigger_sources: triggers.optional(),
        include_sub_calls: subCalls.optional(),
        include_output: includeOutput.optional(),
      }),
    },
    response: { 200: one },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'deleteDestination',
    method: 'DELETE',
    path: DESTINATION,
    summary: 'Delete a destination',
    role: 'owner',
    response: { 200: z.object({ deleted: z.literal(true), destination_id: z.uuid() }) },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'testDestination',
    method: 'POST',
    path: `${DESTINATION}/test`,
    summary: 'Post a test message to a destination once, and report whether it was accepted',
    role: 'owner',
    response: {
      200: z.object({
        success: z.boolean().describe('Whether the receiver answered with a status of 200 to 299.'),
        problem: z.string().nullable().describe('Why it failed; null if it did not.'),
      }),
    },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'listDestinationLog',
    method: 'GET',
    path: `${DESTINATION}/log`,
    summary: 'List the deliveries of a destination in the last seven days, newest first',
    request: {
      query: z.object({
        limit: z.coerce.number().int().min(1).max(200).default(50),
        offset: z.coerce.number().int().min(0).max(10_000).default(0),
      }),
    },
    response: { 200: z.object({ deliveries: z.array(entry) }) },
    errors: ['NOT_FOUND'],
  },
]);
