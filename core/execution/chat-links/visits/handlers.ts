import { lazy } from '#core/base/lazy.ts';
import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { chatRoutes } from './routes.ts';

/** Loaded lazily to keep the cold start of other calls fast. */
const requests = lazy(() => import('./requests.ts'));

export const chatHandlers = (deps: Deps): Handlers<typeof chatRoutes> => ({
  getChat: async (incoming) => (await requests()).getChat(deps, incoming),
  openChatSession: async (incoming) => (await requests()).openChatSession(deps, incoming),
  listChatMessages: async (incoming) => (await requests()).listChatMessages(deps, incoming),
  sendChatMessage: async (incoming) => (await requests()).sendChatMessage(deps, incoming),
  stopChatMessage: async (incoming) => (await requests()).stopChatMessage(deps, incoming),
});
