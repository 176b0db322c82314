import type { Incoming } from '#core/http/route.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { AllDeps, Deps } from '#core/ports/deps.ts';
import type { Operations } from './operations.ts';
import type { mcpRoutes } from './routes.ts';

export type McpDeps = Deps & Pick<AllDeps, 'mcp'>;

/** A request of MCP, of either row. */
export type McpRequest = Omit<Incoming<(typeof mcpRoutes)[1]>, 'params' | 'query'>;

/** What a request of MCP is about. */
export interface Scene {
  readonly incoming: McpRequest;
  readonly operations: Operations;
  /** The only agent, at its own address. @default - the workspace */
  readonly only?: AgentVersion;
  /** Version that the address of the only agent names. @default latest */
  readonly onlyVersion?: string;
  /** Agents that the request names as tools: `org/agent`. */
  readonly named: readonly string[];
}
