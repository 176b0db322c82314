import { ProtocolError, Server, type ServerContext } from '@modelcontextprotocol/server';
import { UsageError } from '#client/usage-error.ts';
import { VERSION } from '#core/base/version.ts';
import type { Cli } from '../shared/cli.ts';
import { failureOf } from '../shared/failure.ts';
import { PUBLISH, publish } from './publish.ts';
import { RemoteError, sendToPlatform } from './remote.ts';

/**
 * Creates an MCP server that passes requests on to the platform's own (`core/wires/mcp`), as the user of the CLI, and adds what
 * only this machine can do: publishing a folder.
 */
export function mcpServer(cli: Cli): Server {
  const server = new Server(
    { name: 'platform', version: VERSION },
    {
      capabilities: { tools: {} },
      instructions:
        'Publish, run and monitor agents on an agent hosting platform. Each agent of the workspace is a tool, named ' +
        'org__agent. Use platform_search_agents and platform_run_agent for agents of others.',
    },
  );
  server.setRequestHandler('tools/list', async ({ params }, context) => {
    const result = await passOn(cli, 'tools/list', { ...params }, context);
    const tools = result.tools as readonly { readonly name: string }[];
    const own = tools.findLastIndex(({ name }) => name.startsWith('platform_')) + 1;
    const isFirst = params?.cursor === undefined;
    return { ...result, tools: isFirst ? tools.toSpliced(own, 0, PUBLISH) : tools } as never;
  });
  server.setRequestHandler('tools/call', async ({ params }, context) => {
    if (params.name !== PUBLISH.name) return (await passOn(cli, 'tools/call', { ...params }, context)) as never;
    try {
      const answer = await publish(cli, params.arguments ?? {});
      return { content: [{ type: 'text', text: JSON.stringify(answer) }], structuredContent: answer };
    } catch (error) {
      const { code, message, hint } = await failureOf(error, cli.last);
      return { isError: true, content: [{ type: 'text', text: JSON.stringify({ code, message, hint }) }] };
    }
  });
  return server;
}

/** Sends a request to the platform. Throws ProtocolError for its errors, and for a platform that cannot be reached. */
async function passOn(
  cli: Cli,
  method: string,
  params: Record<string, unknown>,
  { mcpReq }: ServerContext,
): Promise<Record<string, unknown>> {
  const { progressToken } = (mcpReq._meta ?? {}) as { readonly progressToken?: string | number };
  const meta = progressToken === undefined ? {} : { progressToken };
  try {
    return await sendToPlatform(cli, { method, params, meta }, mcpReq.signal, (notification) => {
      void mcpReq.notify(notification as never).catch(() => {});
    });
  } catch (error) {
    if (error instanceof RemoteError) throw new ProtocolError(error.rpcCode, error.message, error.data);
    const { code, message, hint } = await failureOf(error, cli.last);
    const isUsage = error instanceof UsageError;
    throw new ProtocolError(isUsage ? -32602 : -32000, hint === undefined ? message : `${message} ${hint}`, { code });
  }
}
