import { lazy } from '#core/base/lazy.ts';
import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { openAiRunRoutes } from './routes.ts';

// Loaded lazily: most requests are none of this wire, and smaller functions start faster.
const stored = lazy(() => import('./stored-responses.ts'));
const conversations = lazy(() => import('./conversations.ts'));
const deletion = lazy(() => import('./delete-response.ts'));
const cancellation = lazy(() => import('#core/runs/cancellation.ts'));

export const openAiRunHandlers = (
  deps: Pick<Deps, 'main' | 'runs' | 'counters' | 'blobs' | 'clock' | 'ids' | 'config' | 'runSignals' | 'wakeRun'>,
): Handlers<typeof openAiRunRoutes> => ({
  async deleteOpenAiResponse(incoming) {
    return { status: 200, body: await (await deletion()).deleteResponse(deps, incoming) };
  },
  async createOpenAiConversation(incoming) {
    return { status: 200, body: await (await conversations()).createConversation(deps, incoming) };
  },
  async getOpenAiConversation(incoming) {
    return { status: 200, body: await (await conversations()).shownConversation(deps, incoming) };
  },
  async deleteOpenAiConversation(incoming) {
    return { status: 200, body: await (await conversations()).deleteConversation(deps, incoming) };
  },
  async cancelOpenAiResponse(incoming) {
    const { findResponse, shownResponse } = await stored();
    const found = await findResponse(deps, incoming);
    const { cancelRun, waitForEnd } = await cancellation();
    const { id } = found.run;
    if (await cancelRun(deps, found.workspace.id, id)) await waitForEnd(deps, found.runs, id);
    return { status: 200, body: await shownResponse(await findResponse(deps, incoming), incoming.caller) };
  },
  async listOpenAiInputItems(incoming) {
    const { findResponse, inputItems } = await stored();
    return { status: 200, body: await inputItems(await findResponse(deps, incoming)) };
  },
});
