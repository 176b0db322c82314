import * as z from 'zod';
import { defineRoutes, raw } from '#core/http/route.ts';
import { tenantHeader } from '#core/http/tenant-id.ts';

const JSON_TYPE = 'application/json';
const common = {
  method: 'POST',
  fn: 'mcp',
  auth: 'key',
  keyScope: 'run',
  clientTokens: true,
  stream: true,
  // A notification is accepted without a body; errors of the protocol have a body of JSON-RPC.
  response: { 200: raw(JSON_TYPE), 202: raw(), 404: raw(JSON_TYPE), 406: raw(JSON_TYPE) },
  alsoRaw: ['text/event-stream'],
} as const;
const headers = z.object({ 'x-platform-tenant': tenantHeader });
const body = raw(JSON_TYPE);

/** The endpoints of MCP (`docs/interface/mcp.md`). The handlers check what clients send, as the protocol demands. */
export const mcpRoutes = defineRoutes([
  {
    ...common,
    operationId: 'serveMcp',
    path: '/mcp',
    summary: 'Speak MCP: agents and the workspace as tools',
    request: {
      query: z.object({
        tools: z
          .string()
          .max(2000)
          .optional()
          .describe('Further agents that are tools, as `org/agent`, separated by commas; at most 20.'),
      }),
      headers,
      body,
    },
  },
  {
    ...common,
    operationId: 'serveAgentMcp',
    path: '/{org}/{agent}/mcp',
    summary: 'Speak MCP with one agent, which is the only tool',
    request: { headers, body },
    errors: ['NOT_FOUND'],
  },
]);
