import type { sessionHandlers } from '#core/execution/sessions/handlers.ts';
import { sessionRoutes } from '#core/execution/sessions/routes.ts';
import { lazyHandlers } from '#core/http/lazy-handlers.ts';

export const lazySessionHandlers = (deps: Parameters<typeof sessionHandlers>[0]) =>
  lazyHandlers(sessionRoutes, async () => (await import('#core/execution/sessions/handlers.ts')).sessionHandlers(deps));
