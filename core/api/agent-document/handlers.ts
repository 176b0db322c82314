import { createHash } from 'node:crypto';
import { findPublic, findVisible } from '#core/agents/access.ts';
import { lazy } from '#core/base/lazy.ts';
import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { agentDocumentRoutes } from './routes.ts';

// Loaded lazily: most requests to the catalog are none of these, and smaller functions start faster.
const documents = lazy(() => import('./document.ts'));
const catalogs = lazy(() => import('./api-catalog.ts'));

/** The relation by which a client finds the catalog (RFC 9727, section 3). */
const CATALOG_LINK = 'rel="api-catalog"';

export const agentDocumentHandlers = (
  deps: Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'config'>,
): Handlers<typeof agentDocumentRoutes> => {
  const { baseUrl, callUrl = baseUrl } = deps.config;
  return {
    async getAgentOpenApi({ caller, params, headers }) {
      const agent = caller === undefined ? await findPublic(deps, params) : await findVisible(deps, caller, params);
      const { agentDocument } = await documents();
      const document = agentDocument(agent, { url: callUrl, version: params.version, now: deps.clock.now() });
      const text = Buffer.from(JSON.stringify(document));
      const etag = `"${createHash('sha256').update(text).digest('base64url').slice(0, 22)}"`;
      const answer = {
        etag,
        vary: 'authorization',
        'cache-control': caller === undefined ? 'public, max-age=60' : 'private, no-cache',
      };
      if (isKnown(headers['if-none-match'], etag)) return { status: 304, headers: answer, body: new Uint8Array() };
      return { status: 200, headers: answer, body: text };
    },

    async getApiCatalog() {
      const { apiCatalog } = await catalogs();
      return {
        status: 200,
        headers: {
          'content-type': 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"',
          'cache-control': 'public, max-age=300',
          link: `<${callUrl ?? ''}/.well-known/api-catalog>; ${CATALOG_LINK}`,
        },
        body: Buffer.from(JSON.stringify(await apiCatalog(deps))),
      };
    },
  };
};

/** RFC 9110, section 13.1.2: the comparison is weak. */
const isKnown = (given = '', etag: string): boolean =>
  given.split(',').some((each) => each.trim() === '*' || each.trim().replace(/^W\//, '') === etag);
