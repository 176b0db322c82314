import { lazyHandlers } from '#core/http/lazy-handlers.ts';
import { clientRoutes } from './routes.ts';
import type { ClientDeps } from './server.ts';

export const lazyClientHandlers = (deps: ClientDeps) =>
  lazyHandlers(clientRoutes, async () => (await import('./server.ts')).clientHandlers(deps));
