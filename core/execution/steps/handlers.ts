import { lazy } from '#core/base/lazy.ts';
import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { stepRoutes } from './routes.ts';

/** Loaded lazily: few programs do steps, and smaller functions start faster. */
const requests = lazy(() => import('./requests.ts'));

export const stepHandlers = (deps: Deps): Handlers<typeof stepRoutes> => ({
  async listRunSteps({ caller, params, query }) {
    const { listSteps } = await requests();
    return { status: 200, body: await listSteps(deps, caller, { runId: params.run_id, after: query.after }) };
  },

  async putRunStep({ caller, params, body, request }) {
    const { putStep } = await requests();
    const from = { caller, headers: request.headers };
    return { status: 200, body: await putStep(deps, from, { runId: params.run_id, body }) };
  },
});
