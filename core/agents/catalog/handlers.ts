import type * as z from 'zod';
import type { Handlers } from '#core/http/route.ts';
import { engineTraits } from '#core/manifest/engines.ts';
import { fullNameOf, versionName } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { findDownloadable, findPublic } from '../access.ts';
import { withContents } from '../skills/skill-contents.ts';
import { downloadView, publicView } from '../views.ts';
import type { catalogQuery, catalogRoutes } from './routes.ts';
import { listPublicAgents } from './store.ts';

/** Type names that older clients send (`docs/interface/agents.md#catalog`). */
const TYPE_WORDS: ReadonlyMap<string, readonly string[]> = new Map([
  ['agents', ['prompt', 'tool', 'agent']],
  ['skills', ['skill']],
  ['code', ['tool']],
  ['agentic', ['agent']],
]);

export const catalogHandlers = (
  deps: Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'config'>,
): Handlers<typeof catalogRoutes> => {
  return {
    async listPublicAgents({ query }) {
      const { sort, offset, limit } = query;
      const matches = matcherOf(query);
      const matching: AgentVersion[] = [];
      for await (const version of listPublicAgents(deps)) {
        if (matches(version)) matching.push(version);
        if (sort !== 'name' && matching.length === offset + limit) break;
      }
      if (sort === 'name') matching.sort((a, b) => a.name.localeCompare(b.name));
      const page = matching.slice(offset, offset + limit);
      return { status: 200, body: page.map(publicView) };
    },

    async getPublicAgent({ params }) {
      const version = await findPublic(deps, params);
      return {
        status: 200,
        headers: linkOf(deps, version),
        bodyOf: version,
        get body() {
          return publicView(version);
        },
      };
    },

    async downloadAgent({ params }) {
      return { status: 200, body: downloadView(await withContents(deps, await findDownloadable(deps, params))) };
    },
  };
};

/** The header that leads to the OpenAPI document of an agent that is called (RFC 8631). */
function linkOf({ config }: Pick<Deps, 'config'>, version: AgentVersion): Record<string, string> {
  const { run_mode } = version.definition;
  if (!engineTraits(version).isRun || run_mode === 'always_on') return {};
  const { baseUrl = '', callUrl = baseUrl } = config;
  const address = `${callUrl}/${fullNameOf(version)}/${versionName(version.version)}/openapi.json`;
  return { link: `<${address}>; rel="service-desc"; type="application/json"` };
}

function matcherOf(query: z.output<typeof catalogQuery>): (version: AgentVersion) => boolean {
  const tags =
    query.tags
      ?.split(',')
      .map((tag) => tag.trim().toLowerCase())
      .filter((tag) => tag !== '') ?? [];
  const types = query.type === undefined ? undefined : (TYPE_WORDS.get(query.type) ?? [query.type]);
  const search = query.search?.toLowerCase();
  return (version) => {
    const { definition } = version;
    const text = `${fullNameOf(version)} ${definition.description ?? ''} ${definition.tags.join(' ')}`.toLowerCase();
    const own = definition.tags.map((tag) => tag.toLowerCase());
    return (
      (search === undefined || text.includes(search)) &&
      (types === undefined || types.includes(definition.type)) &&
      tags.every((tag) => own.includes(tag))
    );
  };
}
