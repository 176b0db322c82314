import type { ToolServers } from '#core/ports/tool-servers.ts';
import type { SessionDeps } from './sdk-session.ts';

/**
 * {@link ToolServers} over the client of MCP's TypeScript SDK. Everything is loaded on first use: few runs have tool
 * servers.
 */
export const createMcpToolServers = (deps: SessionDeps): ToolServers => ({
  async open(server, signal) {
    signal.throwIfAborted();
    const { openSession } = await import('./sdk-session.ts');
    return openSession(deps, server, signal);
  },
});
