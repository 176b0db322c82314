import { lazy } from '#core/base/lazy.ts';
import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { loopCallRoutes } from './routes.ts';

// Loaded lazily: most calls are none of services, and smaller functions start faster.
const loopCalls = lazy(() => import('./call-loop.ts'));

export const loopCallHandlers = (deps: Deps): Handlers<typeof loopCallRoutes> => ({
  callLoop: async (incoming) => (await loopCalls()).callLoop(deps, incoming),
});
