import type { Deps } from '../deps.ts';
import type { Handlers } from '../http/route.ts';
import type { metaRoutes } from './routes.ts';

export const metaHandlers = (deps: Pick<Deps, 'config'>): Handlers<typeof metaRoutes> => ({
  async getHealth() {
    return { status: 200, body: { status: 'ok' } };
  },

  async getOpenApi() {
    // Large, and rarely asked for.
    const { openApiDocument } = await import('../openapi.ts');
    const { baseUrl } = deps.config;
    return { status: 200, body: { ...openApiDocument(), ...(baseUrl && { servers: [{ url: baseUrl }] }) } };
  },
});
