import { lazy } from '#core/base/lazy.ts';
import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { agUiRoutes } from './routes.ts';
import type { Authenticate } from './serve.ts';

/** Loaded lazily to keep the cold start of other calls fast. */
const served = lazy(() => import('./serve.ts'));

export const agUiHandlers = (deps: Deps, authenticate: Authenticate): Handlers<typeof agUiRoutes> => ({
  async runAgUi(incoming) {
    const { serve } = await served();
    return serve(deps, authenticate, incoming);
  },
});
