import { listCurrent } from '#core/agents/current.ts';
import { isPlatformError } from '#core/base/errors.ts';
import { findTarget } from '#core/execution/calls/target.ts';
import { engineTraits } from '#core/manifest/engines.ts';
import { FULL_NAME, fullNameOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { MCP_CODES, McpError, type McpObject } from '#core/ports/mcp-endpoint.ts';
import { type McpTool, toolOf } from './agent-tools.ts';
import { managementTools } from './management-tools.ts';
import type { Scene } from './scene.ts';

const PAGE = 100;
/** How long clients may keep a list. Lists of two callers differ. */
const CACHED = { ttlMs: 60_000, cacheScope: 'private' } as const;

/**
 * Lists a page of the tools of a caller (`docs/interface/mcp.md#tools`): those of the platform, the agents that the request
 * names, and the agents of the workspace, the last published first. Throws {@link McpError} for a wrong cursor.
 */
export async function listTools(deps: Deps, scene: Scene, cursor: unknown): Promise<McpObject> {
  if (scene.only !== undefined) return { tools: [toolOf(scene.only)], ...CACHED };
  const first = cursor === undefined ? [...managementTools(scene.operations), ...(await namedTools(deps, scene))] : [];
  const { tools, nextCursor } = await ownTools(deps, scene, {
    limit: Math.max(1, PAGE - first.length),
    cursor: typeof cursor === 'string' ? cursor : undefined,
  });
  const names = new Set(first.map(({ name }) => name));
  return {
    tools: [...first, ...tools.filter(({ name }) => !names.has(name))],
    ...(nextCursor !== undefined && { nextCursor }),
    ...CACHED,
  };
}

interface Page {
  readonly limit: number;
  readonly cursor: string | undefined;
}

async function ownTools(
  deps: Deps,
  scene: Scene,
  { limit, cursor }: Page,
): Promise<{ readonly tools: readonly McpTool[]; readonly nextCursor?: string | undefined }> {
  const { workspace } = scene.incoming.caller;
  const page = await listCurrent(deps, workspace.id, { limit, cursor }).catch((error: unknown) => {
    if (!isPlatformError(error) || error.code !== 'INVALID_INPUT') throw error;
    throw new McpError(MCP_CODES.invalidParams, 'params.cursor: is none of this list. Begin without one.');
  });
  const named = new Set(scene.named);
  const tools = page.agents.flatMap(({ version: agent, isCurrent }) =>
    isCurrent && !named.has(fullNameOf(agent)) && isTool(agent) ? shown(deps, agent) : [],
  );
  return { tools, nextCursor: page.nextCursor };
}

/** One agent never breaks the list. */
function shown({ log }: Pick<Deps, 'log'>, agent: AgentVersion): McpTool[] {
  try {
    return [toolOf(agent)];
  } catch (error) {
    log.warn('an agent is missing in a list of tools', { agent_id: agent.id, error: String(error) });
    return [];
  }
}

/** Whether calls start an agent. */
const isTool = (agent: AgentVersion): boolean => engineTraits(agent).isRun && agent.definition.run_mode !== 'always_on';

async function namedTools(deps: Deps, { incoming, named }: Scene): Promise<McpTool[]> {
  const isNamed = incoming.request.headers.has('x-workspace-id');
  const found = await Promise.all(
    named.map(async (name) => {
      if (!FULL_NAME.test(name)) return [];
      const [org, agent] = name.split('/') as [string, string];
      try {
        const target = await findTarget(deps, { org, agent, version: 'latest' }, incoming.caller, isNamed);
        return isTool(target.agent) ? shown(deps, target.agent) : [];
      } catch (error) {
        // It may have been deleted or made private since the client was set up.
        if (isPlatformError(error) && ['NOT_FOUND', 'FORBIDDEN'].includes(error.code)) return [];
        throw error;
      }
    }),
  );
  return found.flat();
}
