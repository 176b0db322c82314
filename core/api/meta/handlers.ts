import { PlatformError } from '#core/base/errors.ts';
import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { metaRoutes } from './routes.ts';

/** Loaded and made at the first request: it takes about 0.4 s of CPU time, and few processes are asked for it. */
let openApi: Promise<object> | undefined;
const loadOpenApi = async () => (await import('../openapi.ts')).openApiDocument();

export const metaHandlers = (deps: Pick<Deps, 'config' | 'space'>): Handlers<typeof metaRoutes> => ({
  async getHealth() {
    const problem = await deps.space.problem();
    return { status: 200, body: problem === undefined ? { status: 'ok' } : { status: 'disk_nearly_full', problem } };
  },

  async getOpenApi() {
    openApi ??= loadOpenApi();
    const { baseUrl, callUrl = baseUrl } = deps.config;
    return { status: 200, body: { ...(await openApi), ...(callUrl && { servers: [{ url: callUrl }] }) } };
  },

  async getEditorSchema({ params }) {
    const { EDITOR_SCHEMAS, editorSchema } = await import('#core/manifest/editor/schemas.ts');
    const file = EDITOR_SCHEMAS.find((name) => name === params.schema);
    if (file === undefined) {
      throw new PlatformError(
        'NOT_FOUND',
        `This schema does not exist. Available schemas: ${EDITOR_SCHEMAS.join(', ')}.`,
      );
    }
    const headers = { 'cache-control': 'public, max-age=3600' };
    return { status: 200, body: editorSchema(file), headers };
  },
});
