import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { metaRoutes } from './routes.ts';

export const metaHandlers = (deps: Pick<Deps, 'config' | 'space'>): Handlers<typeof metaRoutes> => ({
  async getHealth() {
    const problem = await deps.space.problem();
    return { status: 200, body: problem === undefined ? { status: 'ok' } : { status: 'disk_nearly_full', problem } };
  },

  async getOpenApi() {
    // Large, and rarely asked for.
    const { openApiDocument } = await import('../openapi.ts');
    const { baseUrl } = deps.config;
    return { status: 200, body: { ...openApiDocument(), ...(baseUrl && { servers: [{ url: baseUrl }] }) } };
  },
});
