import { lazy } from '#core/base/lazy.ts';
import type { Log } from '#core/ports/deps.ts';
import type { McpEndpoint } from '#core/ports/mcp-endpoint.ts';

/** Creates the endpoint on MCP's SDK, which is loaded when a request first uses it. */
export function createMcpEndpoint(deps: { readonly log: Log }): McpEndpoint {
  const loaded = lazy(async () => {
    const [{ SdkEndpoint }, sdk] = await Promise.all([
      import('./sdk-endpoint.ts'),
      import('@modelcontextprotocol/server'),
    ]);
    return new SdkEndpoint(sdk, deps);
  });
  return { answer: async (request, server) => (await loaded()).answer(request, server) };
}
