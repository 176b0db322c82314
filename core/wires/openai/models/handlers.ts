import { lazy } from '#core/base/lazy.ts';
import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { openAiModelRoutes } from './routes.ts';

// Loaded lazily: most requests are none of this wire, and smaller functions start faster.
const models = lazy(() => import('../models.ts'));

export const openAiModelHandlers = (
  deps: Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'config'>,
): Handlers<typeof openAiModelRoutes> => ({
  async listOpenAiModels({ caller }) {
    return { status: 200, body: { object: 'list', data: await (await models()).listModels(deps, caller) } };
  },
  async getOpenAiModel({ caller, params, request }) {
    const { findModel, modelView } = await models();
    const isNamed = request.headers.has('x-workspace-id');
    const { agent } = await findModel(deps, { caller, isNamed }, params.model);
    return { status: 200, body: { ...modelView(agent), id: params.model } };
  },
});
