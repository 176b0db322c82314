import * as z from 'zod';
import { printableLine } from '#core/http/printable-line.ts';
import { defineRoutes } from '#core/http/route.ts';
import { tenantHeader } from '#core/http/tenant-id.ts';
import { KEPT_VERSION_TEXT, VERSION_TEXT_RULE } from '#core/manifest/channel-name.ts';
import { BUSY, MAX_TTL_DAYS } from '#core/manifest/session-rules.ts';

const time = z.iso.datetime();
const title = printableLine(200);
const metadata = z
  .record(z.string().min(1).max(64), z.string().max(500))
  .refine((given) => Object.keys(given).length <= 16, 'must have at most 16 members');

const session = z.object({
  id: z.string(),
  agent: z.string().describe('Its agent, as `org/name`.'),
  external_id: z.string().nullable().describe('Your own name for it.'),
  title: z.string().nullable(),
  tenant_id: z.string().nullable().describe('The tenant that it was opened with: no other one sees it.'),
  metadata: z.record(z.string(), z.string()),
  status: z.enum(['idle', 'running', 'waiting']).describe('`waiting`: its run waits for people, time or events.'),
  pin_version: z.string().nullable().describe('Version, or channel, that each message runs. Null: the newest.'),
  busy: z.enum(BUSY).describe('What a message does while another one is under way.'),
  ttl_days: z.int().describe('Days after its last message for which it is kept.'),
  messages: z.int().describe('Number of its messages.'),
  bytes: z.int().describe('What is stored of its messages and answers.'),
  forked_from: z
    .object({
      session_id: z.string().describe('The session with the original messages.'),
      after: z.int().describe('Number of messages that were copied.'),
    })
    .nullable(),
  last_run_id: z.uuid().nullable().describe('Run of its last message. Null: it has none.'),
  created_at: time,
  last_message_at: time.nullable().describe('When its last message came. Null: it has none.'),
  expires_at: time.describe('When it is erased, if no message comes before.'),
});

const message = z.object({
  number: z.int().describe('From 1.'),
  run_id: z.uuid(),
  status: z.string().describe('Status of its run.'),
  input: z.unknown().describe('Input of its run, with secrets masked.'),
  output: z.unknown().describe('Null until the run has completed.'),
  error: z
    .object({
      code: z.string().describe('Code of the error, as in answers.'),
      message: z.string().describe('What was wrong, in a sentence.'),
    })
    .nullable(),
  agent_version: z.string(),
  created_at: time,
  ended_at: time.nullable(),
});

const SESSIONS = '/workspaces/{workspace_id}/sessions';
const SESSION = `${SESSIONS}/{session_id}` as const;
const headers = z.object({ 'x-platform-tenant': tenantHeader });
const row = { fn: 'runs', auth: 'key' } as const;
const one = { ...row, path: SESSION, errors: ['NOT_FOUND'] } as const;

export const sessionRoutes = defineRoutes([
  {
    ...row,
    operationId: 'openSession',
    method: 'POST',
    keyScope: 'run',
    path: SESSIONS,
    summary: 'Open a session of an agent, or find the one with the same external_id',
    request: {
      headers,
      body: z.strictObject({
        agent: z
          .string()
          .regex(/^[a-z0-9-]{1,100}\/[a-z0-9-]{1,50}$/, 'must be org/name')
          .describe('The agent, as `org/name`.'),
        external_id: z
          .string()
          .regex(
            /^(?!ses_)[\w.:@+/=-]{1,256}$/,
            'must be 1-256 letters, digits or . : @ + / = _ -, not beginning with ses_',
          )
          .optional()
          .describe('Your own name for it: the same name opens the same session.'),
        title: title.optional(),
        ttl_days: z
          .int()
          .min(1)
          .max(MAX_TTL_DAYS)
          .optional()
          .describe('Days after the last message until it is erased. Default: those of the manifest, or 30.'),
        metadata: metadata.optional(),
        pin_version: z
          .string()
          .regex(KEPT_VERSION_TEXT, VERSION_TEXT_RULE)
          .optional()
          .describe('Version, or channel, that each message runs. Default: the newest at the time of the message.'),
        busy: z
          .enum(BUSY)
          .optional()
          .describe('What a message does while another one is under way. Default: that of the manifest, or `enqueue`.'),
      }),
    },
    response: { 200: session, 201: session },
    errors: ['NOT_FOUND', 'UNPROCESSABLE'],
  },
  {
    ...row,
    operationId: 'listSessions',
    method: 'GET',
    path: SESSIONS,
    summary: "List a workspace's sessions, the newest first",
    request: {
      headers,
      query: z.object({
        agent: z.string().max(160).optional().describe('Only sessions of this agent, `org/name`.'),
        tenant_id: z.string().max(128).optional().describe('Only sessions of this tenant.'),
        limit: z.coerce.number().int().min(1).max(100).default(20),
        cursor: z.string().max(400).optional().describe('`next_cursor` of the previous page, with the same filters.'),
      }),
    },
    response: {
      200: z.object({
        sessions: z.array(session),
        next_cursor: z
          .string()
          .nullable()
          .describe('Cursor of the next page, which may have fewer sessions than `limit`; null if there are no more.'),
      }),
    },
  },
  {
    ...one,
    operationId: 'getAgentSession',
    method: 'GET',
    summary: 'Show a session',
    request: { headers },
    response: { 200: session },
  },
  {
    ...one,
    operationId: 'updateSession',
    method: 'PATCH',
    keyScope: 'run',
    summary: 'Change the title or the metadata of a session',
    request: {
      headers,
      body: z.strictObject({
        title: title.nullable().optional().describe('Null removes it.'),
        metadata: metadata.optional().describe('Replaces all of it.'),
      }),
    },
    response: { 200: session },
  },
  {
    ...one,
    operationId: 'deleteAgentSession',
    method: 'DELETE',
    keyScope: 'run',
    summary: 'Delete a session: what was said in it and in its runs is erased at once',
    request: { headers },
    response: { 200: z.object({ deleted: z.literal(true), id: z.string() }) },
  },
  {
    ...row,
    operationId: 'interruptSession',
    method: 'POST',
    keyScope: 'run',
    path: `${SESSION}/interrupt`,
    summary: 'Cancel what is under way in a session',
    request: { headers },
    response: {
      200: z.object({
        run_id: z.uuid().nullable().describe('The run that was under way. Null: none was.'),
      }),
    },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'listSessionMessages',
    method: 'GET',
    path: `${SESSION}/messages`,
    summary: 'List the messages of a session with their answers',
    request: {
      headers,
      query: z.object({
        limit: z.coerce.number().int().min(1).max(100).default(20),
        cursor: z.string().max(400).optional().describe('`next_cursor` of the previous page, in the same order.'),
        order: z.enum(['asc', 'desc']).default('asc').describe('`desc`: the newest first.'),
      }),
    },
    response: {
      200: z.object({
        items: z.array(message).describe('The messages with their answers.'),
        next_cursor: z.string().nullable().describe('Cursor of the next page; null if there are no more.'),
      }),
    },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'forkSession',
    method: 'POST',
    keyScope: 'run',
    path: `${SESSION}/fork`,
    summary: 'Open a session that begins with the first messages of another one',
    request: {
      headers,
      body: z.strictObject({
        after: z.int().min(0).max(10_000).describe('Number of messages that are copied.'),
        title: title.optional(),
      }),
    },
    response: { 201: session },
    errors: ['NOT_FOUND', 'CONFLICT', 'UNPROCESSABLE', 'STORAGE_QUOTA_EXCEEDED'],
  },
]);
