import { fromJsonSchema, McpServer } from '@modelcontextprotocol/server';
import * as z from 'zod';
import { ApiError } from '#core/api/client.ts';
import { VERSION } from '#core/base/version.ts';
import type { Cli } from '../shared/cli.ts';
import { failureOf } from '../shared/failure.ts';
import { MCP_TOOLS } from './tools.ts';

/** Creates an MCP server whose tools act as the user of the CLI. */
export function mcpServer(cli: Cli): McpServer {
  const server = new McpServer(
    { name: 'platform', version: VERSION },
    {
      instructions:
        'Publish, run and monitor agents on an agent hosting platform. Use platform_list_agents to find agents.',
    },
  );
  for (const { name, description, input, changes, call } of MCP_TOOLS) {
    // The platform validates the members: some types cannot be expressed in JSON Schema.
    const schema = z.toJSONSchema(input, { io: 'input', unrepresentable: 'any' });
    const inputSchema = fromJsonSchema<Record<string, unknown>>(schema as Parameters<typeof fromJsonSchema>[0]);
    const annotations = { readOnlyHint: changes === 'nothing', destructiveHint: changes === 'deletes' };
    server.registerTool(name, { description, inputSchema, annotations }, async (args) => {
      try {
        const answer = await call(cli.inWorkspace(args.workspace_id as string | undefined), args);
        return { content: [{ type: 'text', text: JSON.stringify(answer) }] };
      } catch (error) {
        return { isError: true, content: [{ type: 'text', text: await errorText(cli, error) }] };
      }
    });
  }
  return server;
}

/** Returns the `error` member of the platform's response, or else the error as shown by the CLI. */
async function errorText(cli: Cli, error: unknown): Promise<string> {
  if (error instanceof ApiError && Object.keys(error.detail).length > 0) return JSON.stringify(error.detail);
  const { code, message, hint } = await failureOf(error, cli.last);
  return JSON.stringify({ code, message, hint });
}
