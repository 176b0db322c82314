import { randomUUID } from 'node:crypto';
import { isFromOwnPage } from '#core/accounts/sign-in/own-pages.ts';
import { isPlatformError, PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { VERSION } from '#core/base/version.ts';
import { findTarget } from '#core/execution/calls/target.ts';
import { parseJson, readBounded } from '#core/http/body.ts';
import { directLimit } from '#core/http/direct-limit.ts';
import type { Incoming } from '#core/http/route.ts';
import { addressIn, fullNameOf } from '#core/manifest/references.ts';
import type { Deps } from '#core/ports/deps.ts';
import { MCP_CODES, type McpServing } from '#core/ports/mcp-endpoint.ts';
import { callTool } from './call-tool.ts';
import { listTools } from './list-tools.ts';
import type { OperationsOf } from './operations.ts';
import type { mcpRoutes } from './routes.ts';
import { TASKS } from './run-tasks.ts';
import type { McpDeps, McpRequest, Scene } from './scene.ts';
import { cancelNoted, isInitialize, SESSION_HEADER } from './sessions.ts';
import { SKILLS, skillMethods } from './skills.ts';
import { taskMethods } from './task-methods.ts';

type Served = Extract<(typeof mcpRoutes)[number], { operationId: 'serveMcp' }>;
type ServedAgent = Extract<(typeof mcpRoutes)[number], { operationId: 'serveAgentMcp' }>;

const MAX_NAMED = 20;

/** Serves a request of MCP for the workspace of the caller. Throws FORBIDDEN for a page of another site, and INVALID_INPUT. */
export async function serveMcp(deps: McpDeps, operationsOf: OperationsOf, incoming: Incoming<Served>) {
  const named = [...new Set((incoming.query.tools ?? '').split(',').map((name) => name.trim()))].filter(Boolean);
  if (named.length > MAX_NAMED) {
    throw new PlatformError('INVALID_INPUT', `query.tools: at most ${MAX_NAMED} agents, not ${named.length}.`, {
      hint: 'platform_search_agents and platform_run_agent reach all others.',
    });
  }
  return serve(deps, { incoming, operations: await operationsOf(incoming.caller, incoming.address), named });
}

/** Serves a request of MCP with one agent. Throws NOT_FOUND, and FORBIDDEN for a private agent or a page of another site. */
export async function serveAgentMcp(deps: McpDeps, operationsOf: OperationsOf, incoming: Incoming<ServedAgent>) {
  const { params, caller, request, address } = incoming;
  const isNamed = request.headers.has('x-workspace-id');
  const named = addressIn(params);
  const sticking = { tenant: incoming.headers['x-platform-tenant'] };
  const { agent } = await findTarget(deps, named, caller, isNamed, sticking);
  const operations = await operationsOf(caller, address);
  return serve(deps, { incoming, operations, only: agent, onlyVersion: named.version, named: [] });
}

async function serve(deps: McpDeps, scene: Scene) {
  const { request } = scene.incoming;
  refuseForeignPages(deps, scene.incoming);
  const limit = directLimit(deps.config, deps.config.maxCallBodyBytes);
  let message: Json;
  try {
    message = parseJson(await readBounded(request, limit), 'The body');
  } catch (error) {
    if (!isPlatformError(error) || error.code !== 'INVALID_INPUT') throw error;
    return answered(400, rpcError(MCP_CODES.parseError, error.message));
  }
  if (Array.isArray(message) && message.length > MAX_BATCH) {
    return answered(400, rpcError(MCP_CODES.invalidRequest, `A batch has at most ${MAX_BATCH} messages.`));
  }
  await cancelNoted(deps, scene.incoming, message);
  const { url, headers } = request;
  const { status, contentType, content } = await deps.mcp.answer({ url, headers, message }, servingOf(deps, scene));
  return { status, raw: { contentType, content }, headers: answerHeaders(message) };
}

const answerHeaders = (message: unknown): Record<string, string> => ({
  'cache-control': 'no-cache',
  ...(isInitialize(message) && { [SESSION_HEADER]: randomUUID() }),
});

/** Revisions before 2025-06-18 have batches. */
const MAX_BATCH = 20;

/** The key alone is proof enough, but the protocol demands that pages of other sites are refused. */
function refuseForeignPages({ config }: Pick<Deps, 'config'>, { request: { headers } }: McpRequest): void {
  const origin = headers.get('origin');
  if (origin === null || (config.baseUrl !== undefined && isFromOwnPage(config, originOnly(origin, headers), [])))
    return;
  throw new PlatformError('FORBIDDEN', `Pages of ${origin.slice(0, 200)} may not use MCP here.`, {
    hint: 'Programs send no Origin header.',
  });
}

/** Returns what tells an own page by its origin alone: pages of the same site may be foreign. */
const originOnly = (origin: string, headers: McpRequest['request']['headers']) => {
  const get = (name: string) => (name === 'origin' ? origin : name === 'host' ? headers.get(name) : null);
  return { get, has: (name: string) => get(name) !== null };
};

const rpcError = (code: number, message: string): object => ({ jsonrpc: '2.0', id: null, error: { code, message } });

const answered = (status: number, body: object) => ({
  status,
  raw: { contentType: 'application/json', content: Buffer.from(JSON.stringify(body)) },
});

function servingOf(deps: McpDeps, scene: Scene): McpServing {
  const { only } = scene;
  return {
    name: only === undefined ? 'platform' : `platform/${fullNameOf(only)}`,
    title: only === undefined ? 'Agent platform' : only.name,
    version: VERSION,
    instructions: only === undefined ? INSTRUCTIONS : (only.definition.description ?? only.name).slice(0, 2000),
    capabilities: {
      tools: {},
      ...(only === undefined && { resources: {} }),
      extensions: { [TASKS]: {}, ...(only === undefined && { [SKILLS]: {} }) },
    },
    methods: {
      'tools/list': ({ cursor }) => listTools(deps, scene, cursor),
      'tools/call': (params, context) => callTool(deps, scene, params, context),
      ...taskMethods(deps, scene),
      ...(only === undefined && skillMethods(deps, scene.incoming.caller)),
    },
  };
}

const INSTRUCTIONS =
  'Run and monitor agents on an agent hosting platform. Each agent of the workspace is a tool, named org__agent. ' +
  'Use platform_search_agents and platform_run_agent for agents of others.';
