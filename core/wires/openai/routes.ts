import * as z from 'zod';
import { defineRoutes, raw } from '#core/http/route.ts';

/** All objects of OpenAI's wire are made by the handlers, which are loaded when a request needs them. */
const object = z.looseObject({});
const common = { auth: 'key', fn: 'runs', response: { 200: object } } as const;
/*
 * OpenAI's wire (`docs/openai.md`): `model` is an agent, `org/agent`, with `@v3`, `@latest` or `@dev`. Its rows are in a file
 * for each deployed function, as the rows of a file are loaded together: these, and those in `calls`, `models` and `stream`.
 */
export const openAiRunRoutes = defineRoutes([
  {
    ...common,
    operationId: 'cancelOpenAiResponse',
    method: 'POST',
    keyScope: 'run',
    path: '/openai/v1/responses/{response_id}/cancel',
    summary: 'Cancel the run of a response, in the form of OpenAI',
    errors: ['NOT_FOUND'],
  },
  {
    ...common,
    operationId: 'listOpenAiInputItems',
    method: 'GET',
    path: '/openai/v1/responses/{response_id}/input_items',
    summary: 'List what a response answers, in the form of OpenAI',
    errors: ['NOT_FOUND'],
  },
  {
    ...common,
    operationId: 'deleteOpenAiResponse',
    method: 'DELETE',
    keyScope: 'run',
    path: '/openai/v1/responses/{response_id}',
    summary: 'Delete what was said in a response, in the form of OpenAI',
    errors: ['NOT_FOUND'],
  },
  {
    ...common,
    operationId: 'createOpenAiConversation',
    method: 'POST',
    keyScope: 'run',
    path: '/openai/v1/conversations',
    summary: 'Open a session as a conversation, in the form of OpenAI',
    request: { body: raw('application/json') },
    errors: ['NOT_FOUND', 'UNPROCESSABLE'],
  },
  {
    ...common,
    operationId: 'getOpenAiConversation',
    method: 'GET',
    path: '/openai/v1/conversations/{conversation_id}',
    summary: 'Get a session as a conversation, in the form of OpenAI',
    errors: ['NOT_FOUND'],
  },
  {
    ...common,
    operationId: 'deleteOpenAiConversation',
    method: 'DELETE',
    keyScope: 'run',
    path: '/openai/v1/conversations/{conversation_id}',
    summary: 'Delete a session as a conversation, in the form of OpenAI',
    errors: ['NOT_FOUND'],
  },
]);
