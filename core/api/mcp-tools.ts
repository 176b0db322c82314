import type { Route } from '#core/http/route.ts';
import type { McpTool } from '#core/wires/mcp/agent-tools.ts';
import { describeTools } from '#core/wires/mcp/management-tools.ts';
import { routes } from './routes.ts';

let described: readonly McpTool[] | undefined;

/**
 * Returns the tools of the platform as clients of MCP see them. On AWS the build writes them: no function has the
 * descriptions of all rows at run time (`scripts/build-functions.ts`).
 */
export function mcpTools(): readonly McpTool[] {
  described ??= describeTools(
    (operation) => (routes as readonly Route[]).find((row) => row.operationId === operation)!,
  );
  return described;
}
