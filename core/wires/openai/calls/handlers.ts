import { lazy } from '#core/base/lazy.ts';
import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { openAiCallRoutes } from './routes.ts';

// Loaded lazily: most requests are none of this wire, and smaller functions start faster.
const chat = lazy(() => import('../chat.ts'));
const responses = lazy(() => import('../responses.ts'));

export const openAiCallHandlers = (deps: Deps): Handlers<typeof openAiCallRoutes> => ({
  createOpenAiChatCompletion: async (incoming) => (await chat()).createChatCompletion(deps, incoming),
  createOpenAiResponse: async (incoming) => (await responses()).createResponse(deps, incoming),
});
