import * as z from 'zod';
import { printableLine } from '#core/http/printable-line.ts';
import { requestTime } from '#core/http/request-time.ts';
import { defineRoutes } from '#core/http/route.ts';

export const LEVELS = ['info', 'success', 'warning', 'error'] as const;

const level = z.enum(LEVELS);
/** Used in keys, which cannot contain half of a surrogate pair. */
const agentName = z
  .string()
  .trim()
  .min(1, 'must not be empty')
  .max(100, 'must have at most 100 characters')
  .transform((text) => text.toWellFormed());

const sent = z.object({
  id: z.uuid(),
  agent_name: z.string().nullable(),
  title: z.string(),
  level,
  created_at: z.iso.datetime(),
});
export const messageSchema = sent.extend({ body: z.string(), metadata: z.record(z.string(), z.unknown()).nullable() });

const query = z.object({
  limit: z.coerce.number().int().min(1).max(200).default(50),
  offset: z.coerce.number().int().min(0).max(10_000).default(0),
  level: level.optional(),
  agent_name: agentName.optional(),
});
const page = z.object({
  messages: z.array(messageSchema),
  total: z.int().describe('Number of matching messages on all pages.'),
});

export const messageRoutes = defineRoutes([
  {
    operationId: 'sendMessage',
    method: 'POST',
    path: '/messages',
    summary: 'Send a message to the people of the workspace',
    fn: 'tasks',
    auth: 'key',
    agents: true,
    scope: 'messages',
    request: {
      body: z.object({
        title: printableLine(500),
        body: z.string().min(1, 'must not be empty').max(10_000, 'must have at most 10,000 characters'),
        level: level.default('info'),
        agent_name: agentName.nullable().optional().describe('Name of the sending agent. Default: the calling agent.'),
        metadata: z
          .record(z.string(), z.unknown())
          .refine((members) => JSON.stringify(members).length <= 10_000, 'must have at most 10,000 characters as JSON')
          .nullable()
          .optional(),
      }),
    },
    response: { 201: sent },
  },
  {
    operationId: 'listMessages',
    method: 'GET',
    path: '/messages',
    summary: 'List the messages of the current workspace, newest first',
    fn: 'tasks',
    auth: 'key',
    agents: true,
    scope: 'messages',
    request: { query },
    response: { 200: page },
  },
  {
    operationId: 'listWorkspaceMessages',
    method: 'GET',
    path: '/workspaces/{workspace_id}/messages',
    summary: 'List the messages of a workspace, newest first',
    fn: 'tasks',
    auth: 'key',
    agents: true,
    scope: 'messages',
    request: { query },
    response: { 200: page },
  },
  {
    operationId: 'markMessagesSeen',
    method: 'PUT',
    path: '/workspaces/{workspace_id}/messages/seen',
    summary: 'Mark the messages of a workspace as seen up to a time',
    fn: 'tasks',
    auth: 'key',
    keyScope: 'run',
    request: { body: z.object({ until: requestTime }) },
    response: { 200: z.object({ seen_until: z.iso.datetime().describe('Never earlier than the previous value.') }) },
  },
  {
    operationId: 'deleteMessage',
    method: 'DELETE',
    path: '/messages/{message_id}',
    summary: 'Delete a message',
    fn: 'tasks',
    auth: 'key',
    agents: true,
    scope: 'messages',
    response: { 200: z.object({ deleted: z.literal(true), id: z.string() }) },
    errors: ['NOT_FOUND'],
  },
]);
