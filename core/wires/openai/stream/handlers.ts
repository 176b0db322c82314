import type { Caller } from '#core/base/caller.ts';
import { lazy } from '#core/base/lazy.ts';
import type { RequestHeaders } from '#core/http/message.ts';
import { type Handlers, type KeyNeeds, rowOf } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import { openAiResponseRoutes } from './routes.ts';

// Loaded lazily: most requests are none of this wire, and smaller functions start faster.
const stored = lazy(() => import('../stored-responses.ts'));
const watchedAnswer = lazy(() => import('../watched-answer.ts'));
const watchers = lazy(() => import('#core/events/watchers.ts'));

/** `authenticate` throws if a caller with these headers has no access to the workspace. */
export const openAiResponseHandlers = (
  deps: Pick<Deps, 'main' | 'runs' | 'counters' | 'blobs' | 'clock' | 'ids' | 'config' | 'log' | 'watching'>,
  authenticate: (headers: RequestHeaders, workspaceId: string, row: KeyNeeds) => Promise<Caller>,
): Handlers<typeof openAiResponseRoutes> => ({
  async getOpenAiResponse(incoming) {
    const { caller, query, request, requestUuid } = incoming;
    const { findResponse, shownResponse, watchResponse } = await stored();
    const found = await findResponse(deps, incoming);
    if (query.stream !== 'true') return { status: 200, body: await shownResponse(found, caller) };
    const row = rowOf(openAiResponseRoutes, 'getOpenAiResponse');
    const workspaceId = found.workspace.id;
    const watched = await watchResponse(deps, found, caller, query.starting_after);
    return (await watchedAnswer()).watchedAnswer(deps, watched, {
      requestUuid,
      onEnd: await (await watchers()).takePlace(deps, workspaceId),
      check: async () => void (await authenticate(request.headers, workspaceId, row)),
    });
  },
});
