import { listPublicAgents } from '#core/agents/catalog/store.ts';
import type { Config } from '#core/base/config.ts';
import { engineTraits } from '#core/manifest/engines.ts';
import { fullNameOf } from '#core/manifest/references.ts';
import type { Deps } from '#core/ports/deps.ts';

/** Maximum number of agents in the catalog: a request reads the definition of each. */
const MAX_AGENTS = 200;

interface Link {
  readonly href: string;
  readonly type?: string;
}
type Context = { readonly anchor: string } & { readonly [relation: string]: readonly Link[] | string };

/**
 * Returns the link set of the catalog (RFC 9727; RFC 9264, section 4.2): the platform with its description, its
 * documentation and its status, and the newest public agents that are called, each with its description.
 */
export async function apiCatalog(
  deps: Pick<Deps, 'main' | 'blobs' | 'clock'> & {
    readonly config: Pick<Config, 'baseUrl' | 'callUrl' | 'dashboardUrl'>;
  },
): Promise<{ readonly linkset: readonly Context[] }> {
  const { baseUrl = '', callUrl = baseUrl, dashboardUrl } = deps.config;
  const agents: Context[] = [];
  for await (const agent of listPublicAgents(deps)) {
    if (!engineTraits(agent).isRun || agent.definition.run_mode === 'always_on') continue;
    const anchor = `${callUrl}/${fullNameOf(agent)}/latest`;
    agents.push({ anchor, 'service-desc': [{ href: `${anchor}/openapi.json`, type: 'application/json' }] });
    if (agents.length === MAX_AGENTS) break;
  }
  const platform: Context = {
    anchor: `${callUrl}/`,
    'service-desc': [{ href: `${callUrl}/openapi.json`, type: 'application/json' }],
    // The documentation is served where the dashboard is.
    ...(dashboardUrl !== undefined && { 'service-doc': [{ href: `${baseUrl}/docs/`, type: 'text/html' }] }),
    status: [{ href: `${callUrl}/health`, type: 'application/json' }],
  };
  const items = [platform, ...agents].map(({ anchor }) => ({ href: anchor }));
  return { linkset: [{ anchor: `${callUrl}/.well-known/api-catalog`, item: items }, platform, ...agents] };
}
