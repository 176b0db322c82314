import { lazy } from '#core/base/lazy.ts';
import type { sessionHandlers } from '#core/execution/sessions/handlers.ts';
import { sessionRoutes } from '#core/execution/sessions/routes.ts';
import type { Handlers } from '#core/http/route.ts';

const load = lazy(() => import('#core/execution/sessions/handlers.ts'));

type Rows = typeof sessionRoutes;

/** The handlers of sessions, loaded when one is first used: the function that serves them starts for other requests, too. */
export const lazySessionHandlers = (deps: Parameters<typeof sessionHandlers>[0]): Handlers<Rows> =>
  Object.fromEntries(
    sessionRoutes.map(({ operationId }) => [
      operationId,
      async (incoming: never) => (await load()).sessionHandlers(deps)[operationId](incoming),
    ]),
  ) as unknown as Handlers<Rows>;
