import { isPlatformError } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import { MCP_CODES, type McpContext, McpError, type McpMethod, type McpObject } from '#core/ports/mcp-endpoint.ts';
import { resultOfRun } from './call-agent.ts';
import { cancelTask, checkTakesTasks, getTask, type TaskScope, updateTask } from './run-tasks.ts';
import type { Scene } from './scene.ts';
import { refusing } from './waiting-calls.ts';

/** Returns the methods of the extension `io.modelcontextprotocol/tasks` (`docs/interface/mcp.md#tasks`). */
export function taskMethods(deps: Deps, scene: Scene): Readonly<Record<string, McpMethod>> {
  const { caller, address, headers } = scene.incoming;
  const { only } = scene;
  const { workspace } = caller;
  const scope: TaskScope = {
    ...{ caller, workspace, address },
    tenantId: headers['x-platform-tenant'],
    isVisible: ({ agentOrg, agentName }) =>
      only === undefined || (agentOrg === only.orgSlug && agentName === only.name),
  };
  const method =
    (work: (taskId: string, context: McpContext) => Promise<McpObject>): McpMethod =>
    async (params: McpObject, context: McpContext) => {
      checkTakesTasks(context);
      try {
        return await refusing(() => work(textOf(params.taskId), context));
      } catch (error) {
        if (!isPlatformError(error)) throw error;
        throw new McpError(MCP_CODES.failed, error.message, { code: error.code });
      }
    };
  return {
    'tasks/get': method((taskId) => getTask(deps, scope, taskId, ({ id }) => resultOfRun(deps, workspace, id))),
    'tasks/update': method(async (taskId, { inputResponses }) => {
      await updateTask(deps, scope, taskId, inputResponses ?? {});
      return {};
    }),
    'tasks/cancel': method(async (taskId) => {
      await cancelTask(deps, scope, taskId);
      return {};
    }),
  };
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  throw new McpError(MCP_CODES.invalidParams, 'params.taskId: must be a string.');
}
