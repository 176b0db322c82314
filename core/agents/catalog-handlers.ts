import type { Deps } from '../deps.ts';
import { PlatformError } from '../errors.ts';
import type { Handlers } from '../http/route.ts';
import { bundleAnswer } from './handlers.ts';
import type { catalogRoutes } from './routes.ts';
import { type AgentVersion, listPublicVersions, resolveAgent } from './store.ts';
import { downloadView, isPaid, publicView } from './views.ts';

/** Type words of older clients (`contract.md` 2.1). */
const TYPE_WORDS: Record<string, readonly string[]> = {
  agents: ['prompt', 'tool', 'agent'],
  skills: ['skill'],
  code: ['tool'],
  agentic: ['agent'],
};

export const catalogHandlers = (deps: Deps): Handlers<typeof catalogRoutes> => {
  async function find({ org, agent, version }: { org: string; agent: string; version: string }): Promise<AgentVersion> {
    const found = await resolveAgent(deps, org, agent, version);
    // A private agent reads as absent: clients then look among their own (contract.md 2.2).
    if (!found?.definition.is_public) {
      throw new PlatformError('NOT_FOUND', `There is no public agent ${org}/${agent} with a version ${version}.`);
    }
    return found;
  }

  async function findSource(params: { org: string; agent: string; version: string }): Promise<AgentVersion> {
    const found = await find(params);
    const name = `${found.orgSlug}/${found.name}`;
    if (isPaid(found))
      throw new PlatformError('PAID_AGENT_SERVER_ONLY', `${name} is a paid agent and runs on the server only.`);
    if (!found.definition.allow_local_download) {
      throw new PlatformError(
        'DOWNLOAD_DISABLED',
        `${name} runs on the server only: its author does not offer the source.`,
      );
    }
    return found;
  }

  return {
    async listPublicAgents({ query }) {
      const newest = new Map<string, AgentVersion>();
      for await (const version of listPublicVersions(deps)) {
        const agent = `${version.workspaceId}/${version.name}`;
        const known = newest.get(agent);
        if (known === undefined || known.version < version.version) newest.set(agent, version);
      }
      const tags =
        query.tags
          ?.split(',')
          .map((tag) => tag.trim().toLowerCase())
          .filter((tag) => tag !== '') ?? [];
      const types = query.type === undefined ? undefined : (TYPE_WORDS[query.type] ?? [query.type]);
      const search = query.search?.toLowerCase();
      const matching = [...newest.values()].filter(({ definition, name, orgSlug }) => {
        const text = `${orgSlug}/${name} ${definition.description ?? ''} ${definition.tags.join(' ')}`.toLowerCase();
        const own = definition.tags.map((tag) => tag.toLowerCase());
        return (
          (search === undefined || text.includes(search)) &&
          (types === undefined || types.includes(definition.type)) &&
          tags.every((tag) => own.includes(tag))
        );
      });
      if (query.sort === 'name') matching.sort((a, b) => a.name.localeCompare(b.name));
      const page = matching.slice(query.offset, query.offset + query.limit);
      return { status: 200, body: page.map(publicView) };
    },

    async getPublicAgent({ params }) {
      return { status: 200, body: publicView(await find(params)) };
    },

    async downloadAgent({ params }) {
      return { status: 200, body: downloadView(await findSource(params)) };
    },

    async downloadBundle({ params }) {
      return { status: 200, ...(await bundleAnswer(deps, await findSource(params))) };
    },
  };
};
