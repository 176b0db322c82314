import * as z from 'zod';
import { defineRoutes, raw } from '#core/http/route.ts';
import { tenantHeader } from '#core/http/tenant-id.ts';
import { CALL_ERRORS } from '../call-errors.ts';

/** The handlers make all objects of A2A, and check those of clients. They are loaded when a request needs them. */
const object = z.looseObject({});
const body = raw('application/json', 'application/a2a+json');
const headers = z.object({
  'a2a-version': z.string().max(20).optional().describe('Must be `1.0`.'),
  'x-platform-tenant': tenantHeader,
});
const common = {
  fn: 'a2a',
  auth: 'key',
  stream: true,
  clientTokens: true,
  response: { 200: object },
  alsoRaw: ['application/a2a+json', 'text/event-stream'],
} as const;
const sends = {
  ...common,
  method: 'POST',
  keyScope: 'run',
  admits: true,
  request: { headers, body },
  errors: CALL_ERRORS,
} as const;
const changes = { ...common, keyScope: 'run', errors: ['NOT_FOUND'] } as const;
const reads = { ...common, method: 'GET', request: { headers }, errors: ['NOT_FOUND'] } as const;

/** A2A 1.0 (`docs/interface/a2a.md`), by JSON-RPC at the first address and by HTTP+JSON below it. */
export const a2aRoutes = defineRoutes([
  {
    ...reads,
    operationId: 'getAgentCard',
    auth: 'optional',
    path: '/a2a/{org}/{agent}/.well-known/agent-card.json',
    summary: 'Get the card of an agent, by the protocol A2A',
    request: {},
  },
  {
    operationId: 'getCardKeys',
    method: 'GET',
    path: '/.well-known/jwks.json',
    summary: 'Get the keys by which clients verify the cards of agents (RFC 7517)',
    fn: 'a2a',
    auth: 'public',
    stream: true,
    response: {
      200: z.object({
        keys: z.array(
          z.object({
            kty: z.literal('EC'),
            crv: z.literal('P-256'),
            x: z.string(),
            y: z.string(),
            kid: z.string(),
            alg: z.literal('ES256'),
            use: z.literal('sig'),
          }),
        ),
      }),
    },
    errors: ['NOT_FOUND'],
  },
  {
    ...sends,
    operationId: 'callA2a',
    path: '/a2a/{org}/{agent}',
    summary: 'Call a method of the protocol A2A by JSON-RPC',
  },
  {
    ...sends,
    operationId: 'sendA2aMessage',
    path: '/a2a/{org}/{agent}/message:send',
    summary: 'Send a message to an agent by the protocol A2A',
  },
  {
    ...sends,
    operationId: 'streamA2aMessage',
    path: '/a2a/{org}/{agent}/message:stream',
    summary: 'Send a message by the protocol A2A, and follow its task',
  },
  {
    ...reads,
    operationId: 'listA2aTasks',
    path: '/a2a/{org}/{agent}/tasks',
    summary: 'List tasks of an agent by the protocol A2A',
    request: {
      headers,
      query: z.object({
        contextId: z.string().max(100).optional().describe('Only tasks of this context: the id of a session.'),
        status: z.string().max(40).optional().describe('Only tasks in this state, such as `TASK_STATE_COMPLETED`.'),
        pageSize: z.string().max(5).optional().describe('Maximum number of tasks, from 1 to 100; 50 if absent.'),
        pageToken: z.string().max(1000).optional().describe('`nextPageToken` of the page before.'),
        includeArtifacts: z.string().max(5).optional().describe('`true`: with what the tasks produced.'),
        historyLength: z.string().max(9).optional().describe('Has no effect: tasks come without their messages.'),
        statusTimestampAfter: z.string().max(40).optional().describe('Only tasks that began at this time or later.'),
      }),
    },
  },
  {
    ...reads,
    operationId: 'getA2aTask',
    path: '/a2a/{org}/{agent}/tasks/{a2a_task}',
    summary: 'Get a task by the protocol A2A, or follow it as `{a2a_task}:subscribe`',
  },
  {
    ...changes,
    operationId: 'changeA2aTask',
    method: 'POST',
    path: '/a2a/{org}/{agent}/tasks/{a2a_task}',
    summary: 'Cancel a task by the protocol A2A as `{a2a_task}:cancel`, or follow it as `{a2a_task}:subscribe`',
    request: { headers },
  },
  {
    ...changes,
    operationId: 'createA2aPush',
    method: 'POST',
    path: '/a2a/{org}/{agent}/tasks/{a2a_task}/pushNotificationConfigs',
    summary: 'Have a task posted to an address, by the protocol A2A',
    request: { headers, body },
  },
  {
    ...reads,
    operationId: 'listA2aPushes',
    path: '/a2a/{org}/{agent}/tasks/{a2a_task}/pushNotificationConfigs',
    summary: 'List the addresses that a task is posted to, by the protocol A2A',
  },
  {
    ...reads,
    operationId: 'getA2aPush',
    path: '/a2a/{org}/{agent}/tasks/{a2a_task}/pushNotificationConfigs/{a2a_push}',
    summary: 'Get an address that a task is posted to, by the protocol A2A',
  },
  {
    ...changes,
    operationId: 'deleteA2aPush',
    method: 'DELETE',
    path: '/a2a/{org}/{agent}/tasks/{a2a_task}/pushNotificationConfigs/{a2a_push}',
    summary: 'Post a task no more to an address, by the protocol A2A',
    request: { headers },
  },
  {
    ...reads,
    operationId: 'getExtendedAgentCard',
    path: '/a2a/{org}/{agent}/extendedAgentCard',
    summary: 'Get all of the card of an agent, by the protocol A2A',
  },
]);
