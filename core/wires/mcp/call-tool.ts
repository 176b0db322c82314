import { isPlatformError } from '#core/base/errors.ts';
import { findTarget } from '#core/execution/calls/target.ts';
import type { Deps } from '#core/ports/deps.ts';
import { isMcpError, MCP_CODES, type McpContext, McpError, type McpObject } from '#core/ports/mcp-endpoint.ts';
import { agentNamesOf, toolNameOf } from './agent-tools.ts';
import { callAgentTool, type ToolTarget } from './call-agent.ts';
import { failedResult, isUnexpected, unknownTool } from './errors.ts';
import { callManagementTool } from './management-tools.ts';
import type { Scene } from './scene.ts';

const PLATFORM = 'platform_';

/**
 * Calls a tool (`docs/interface/mcp.md#calls`). A failure that a model can react to is a result. Throws {@link McpError} for an
 * unknown tool and for failures of the platform.
 */
export async function callTool(deps: Deps, scene: Scene, params: McpObject, context: McpContext): Promise<McpObject> {
  const { name, arguments: given = {} } = params;
  if (typeof name !== 'string') throw new McpError(MCP_CODES.invalidParams, 'params.name: must be a string.');
  const args = given as McpObject;
  try {
    if (name.startsWith(PLATFORM) && scene.only === undefined) {
      return await callManagementTool(deps, scene, { name, args, context });
    }
    const target = await targetOf(deps, scene, name);
    if (target === undefined) throw unknownTool(name);
    return await callAgentTool(deps, scene, target, args, context);
  } catch (error) {
    if (isMcpError(error)) throw error;
    const { requestUuid } = scene.incoming;
    if (isUnexpected(error)) {
      const text = error instanceof Error ? error.stack : String(error);
      deps.log.error('request failed', { request_id: requestUuid, tool: name.slice(0, 64), error: text });
    }
    return failedResult(error, requestUuid);
  }
}

/** Finds the agent of a tool; `undefined` if there is none. Throws FORBIDDEN for a private agent of another workspace. */
async function targetOf(deps: Deps, scene: Scene, name: string): Promise<ToolTarget | undefined> {
  const { caller, request } = scene.incoming;
  const isNamed = request.headers.has('x-workspace-id');
  const sticking = { tenant: scene.incoming.headers['x-platform-tenant'] };
  const find = async (org: string, agent: string, version = 'latest'): Promise<ToolTarget | undefined> => {
    try {
      return await findTarget(deps, { org, agent, version }, caller, isNamed, sticking);
    } catch (error) {
      if (isPlatformError(error) && error.code === 'NOT_FOUND') return undefined;
      throw error;
    }
  };
  const { only, onlyVersion } = scene;
  if (only !== undefined) return name === toolNameOf(only) ? find(only.orgSlug, only.name, onlyVersion) : undefined;
  const names = agentNamesOf(name);
  if (names === undefined) return undefined;
  return find(orgOf(scene, name, names), names.agent);
}

/** A cut name is that of an agent that the list may have: no organization with the cut name takes its place. */
function orgOf({ incoming, named }: Scene, tool: string, { org, agent }: { org: string; agent: string }): string {
  const listed = [incoming.caller.workspace.slug, ...named.map((full) => full.split('/')[0]!)];
  return listed.find((orgSlug) => toolNameOf({ orgSlug, name: agent }) === tool) ?? org;
}
