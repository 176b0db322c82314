import * as z from 'zod';
import { defineRoutes, raw } from '#core/http/route.ts';

const call = {
  auth: 'key',
  fn: 'calls',
  method: 'POST',
  keyScope: 'run',
  admits: true,
  stream: true,
  request: { body: raw('application/json') },
  alsoRaw: ['text/event-stream'],
  response: { 200: z.looseObject({}) },
  errors: [
    'MISSING_INPUT_FIELDS',
    'MISSING_SECRETS',
    'LLM_KEY_REQUIRED',
    'CONFLICT',
    'RUN_CANCELLED',
    'BUDGET_EXCEEDED',
    'LLM_RATE_LIMITED',
    'LLM_ERROR',
    'INSUFFICIENT_CREDITS',
    'NOT_FOUND',
    'UNPROCESSABLE',
    'SANDBOX_ERROR',
    'TIMEOUT',
  ],
} as const;

export const openAiCallRoutes = defineRoutes([
  {
    ...call,
    operationId: 'createOpenAiChatCompletion',
    path: '/openai/v1/chat/completions',
    summary: 'Call an agent with the messages of a chat, in the form of OpenAI',
  },
  {
    ...call,
    operationId: 'createOpenAiResponse',
    path: '/openai/v1/responses',
    summary: 'Call an agent in the form of the Responses API of OpenAI',
  },
]);
