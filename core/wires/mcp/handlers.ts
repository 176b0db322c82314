import { lazy } from '#core/base/lazy.ts';
import type { Handlers } from '#core/http/route.ts';
import type { OperationsOf } from './operations.ts';
import type { mcpRoutes } from './routes.ts';
import type { McpDeps } from './scene.ts';

/** Loaded lazily, as requests of other rows load none of it. */
const served = lazy(() => import('./serve.ts'));

export const mcpHandlers = (deps: McpDeps, operationsOf: OperationsOf): Handlers<typeof mcpRoutes> => ({
  serveMcp: async (incoming) => (await served()).serveMcp(deps, operationsOf, incoming),
  serveAgentMcp: async (incoming) => (await served()).serveAgentMcp(deps, operationsOf, incoming),
});
