import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';

const common = { auth: 'key', fn: 'agents', method: 'GET', response: { 200: z.looseObject({}) } } as const;

export const openAiModelRoutes = defineRoutes([
  {
    ...common,
    operationId: 'listOpenAiModels',
    path: '/openai/v1/models',
    summary: 'List the agents of the workspace as models, in the form of OpenAI',
  },
  {
    ...common,
    operationId: 'getOpenAiModel',
    path: '/openai/v1/models/{model}',
    summary: 'Get an agent as a model, in the form of OpenAI',
    errors: ['NOT_FOUND'],
  },
]);
