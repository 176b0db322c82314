import type { Deps } from '../deps.ts';
import type { Handlers } from '../http/route.ts';
import { openApiDocument } from '../openapi.ts';
import type { metaRoutes } from './routes.ts';

export const metaHandlers = (deps: Pick<Deps, 'config'>): Handlers<typeof metaRoutes> => ({
  async getHealth() {
    return { status: 200, body: { status: 'ok' } };
  },

  async getOpenApi() {
    return { status: 200, body: openApiDocument(deps.config.baseUrl) };
  },
});
