import { lazy } from '#core/base/lazy.ts';
import type { Handlers } from '#core/http/route.ts';
import { clientRoutes } from './routes.ts';
import type { ClientDeps } from './server.ts';

const load = lazy(() => import('./server.ts'));

type Rows = typeof clientRoutes;

/** The authorization server, loaded when it is first used: its function starts for other requests, too. */
export const lazyClientHandlers = (deps: ClientDeps): Handlers<Rows> =>
  Object.fromEntries(
    clientRoutes.map(({ operationId }) => [
      operationId,
      async (incoming: never) => (await load()).clientHandlers(deps)[operationId](incoming),
    ]),
  ) as unknown as Handlers<Rows>;
