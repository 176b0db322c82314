import * as z from 'zod';
import { defineRoutes, raw } from '#core/http/route.ts';
import { CHAT_KINDS } from '../chat-kinds.ts';

const time = z.iso.datetime();

/** The parameter is the secret part of a link. */
const CHAT = '/public/chats/{chat}';
const SESSION = `${CHAT}/sessions/{chat_session}`;
const open = { fn: 'calls', auth: 'public', stream: true, errors: ['NOT_FOUND'] } as const;
const secret = z.string().max(100);
const visitor = z.object({
  // Without it there is no session, as with a wrong one.
  'x-platform-visitor': secret
    .optional()
    .describe('The secret of the visitor, from the answer that opened its first session.'),
});

/** Maximum characters of a visitor's message. */
export const MAX_MESSAGE = 8_000;

const message = z.object({
  number: z.int().describe('From 1.'),
  status: z.enum(['running', 'waiting', 'completed', 'failed', 'stopped']),
  text: z.string().nullable().describe('What the visitor wrote.'),
  answer: z.string().nullable().describe('The answer; of a message under way, what is known of it.'),
  output: z.unknown().describe('The whole answer of a form; else null.'),
  error: z.string().nullable().describe('Why there is no answer, in plain words.'),
  created_at: time,
});

/** What the page of a link needs. The link, and the secret of a visitor, are the only credentials. */
export const chatRoutes = defineRoutes([
  {
    ...open,
    operationId: 'getChat',
    method: 'GET',
    path: CHAT,
    summary: 'Show what the page of a chat link says',
    response: {
      200: z.object({
        kind: z.enum(CHAT_KINDS),
        title: z.string(),
        welcome: z.string().nullable(),
        suggestions: z.array(z.string()),
        input_schema: z.record(z.string(), z.unknown()).nullable().describe('Fields of a form; null for a chat.'),
        max_message_characters: z.int(),
        expires_at: time,
      }),
    },
  },
  {
    ...open,
    operationId: 'openChatSession',
    method: 'POST',
    path: `${CHAT}/sessions`,
    summary: 'Open a session of a visitor, who gets a secret unless it has one',
    request: { headers: visitor },
    response: {
      201: z.object({
        session_id: z.uuid(),
        visitor: z.string().describe('The secret of the visitor. Who has it can read its sessions.'),
      }),
    },
    errors: ['NOT_FOUND', 'RATE_LIMITED'],
  },
  {
    ...open,
    operationId: 'listChatMessages',
    method: 'GET',
    path: `${SESSION}/messages`,
    summary: 'List the messages of a session of a visitor, oldest first, with what is known of the last answer',
    request: {
      headers: visitor,
      query: z.object({
        limit: z.coerce.number().int().min(1).max(100).default(50).describe('The newest messages, at most as many.'),
        before: z.coerce.number().int().min(1).max(99_999_999).optional().describe('Only messages before this number.'),
      }),
    },
    response: {
      200: z.object({
        messages: z.array(message),
        has_older: z.boolean().describe('Whether there are messages before these.'),
      }),
    },
  },
  {
    ...open,
    operationId: 'sendChatMessage',
    method: 'POST',
    path: `${SESSION}/messages`,
    summary: 'Send a message of a visitor, and stream the answer',
    maxBody: { bytes: 64 * 1024 },
    request: {
      headers: visitor,
      body: z.strictObject({
        text: z.string().trim().min(1).max(MAX_MESSAGE).optional().describe('The message, for a chat.'),
        input: z.record(z.string(), z.unknown()).optional().describe('The fields, for a form.'),
      }),
    },
    response: { 200: raw('text/event-stream') },
    errors: ['NOT_FOUND', 'CONFLICT', 'UNPROCESSABLE', 'RATE_LIMITED', 'INVALID_INPUT', 'TIMEOUT'],
  },
  {
    ...open,
    operationId: 'stopChatMessage',
    method: 'POST',
    path: `${SESSION}/stop`,
    summary: 'Stop the answer to a message of a visitor',
    request: { headers: visitor },
    response: { 200: z.object({ stopped: z.boolean().describe('False if none was under way.') }) },
  },
]);
