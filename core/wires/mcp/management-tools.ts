import * as z from 'zod';
import { type CurrentAgent, listCurrent } from '#core/agents/current.ts';
import { PlatformError } from '#core/base/errors.ts';
import { findTarget } from '#core/execution/calls/target.ts';
import { isRaw, pathParameters, type Route } from '#core/http/route.ts';
import { fullNameOf, versionName, writtenVersion } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { McpContext, McpObject } from '#core/ports/mcp-endpoint.ts';
import type { McpTool } from './agent-tools.ts';
import { runAgent } from './call-agent.ts';
import { failedResult, unknownTool } from './errors.ts';
import { findId, findRun } from './find-id.ts';
import type { Operations } from './operations.ts';
import type { Scene } from './scene.ts';

/** Returns the row of an operation. */
type RowOf = (operation: string) => Route;

/** `deletes` stands for everything that cannot be undone. */
type Effect = 'nothing' | 'something' | 'deletes';

interface ManagementTool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly input: (rows: RowOf) => z.ZodObject;
  /** Effect that clients may ask the user to confirm. */
  readonly changes: Effect | ((rows: RowOf) => Effect);
  /** The operation whose key scope it needs. @default - that of the endpoint */
  readonly needs?: string;
  /** Returns the JSON of the answer, or a whole result. Throws the errors of its operations. */
  call(given: Given): Promise<unknown>;
}

interface Given {
  readonly deps: Deps;
  readonly scene: Scene;
  readonly operations: Operations;
  readonly args: McpObject;
  readonly context: McpContext;
}

/** A result that is more than its JSON. */
class WholeResult {
  readonly result: McpObject;

  constructor(result: McpObject) {
    this.result = result;
  }
}

const workspace_id = z.string().optional().describe('Workspace ID. Default: the workspace of the connection.');
const run = z.string().describe('Run ID or prefix, or the name of an agent (its latest run).');

/** Tools that map to one operation of the API and have its input. */
const OPERATIONS: readonly (readonly [name: string, operation: string, description: string, changes?: Effect])[] = [
  ['list_tasks', 'listTasks', 'List tasks of people and agents in the workspace.'],
  ['create_task', 'createTask', 'Create a task for a person or an agent.'],
  ['update_task', 'updateTask', 'Change a task, or set its status to done.'],
  ['delete_task', 'deleteTask', 'Delete a task.'],
  ['list_messages', 'listMessages', 'List messages that agents sent to the people of the workspace.'],
  ['send_message', 'sendMessage', 'Send a message to the people of the workspace.'],
  [
    'list_schedules',
    'listSchedules',
    'List the schedules of the workspace: agents that run on a cron expression or a webhook.',
  ],
  [
    'create_schedule',
    'createSchedule',
    'Create a schedule that runs an agent on a cron expression or a webhook. Set `agent` to "org/agent".',
  ],
  ['list_runs', 'listRuns', 'List runs of the workspace, newest first.'],
  [
    'list_approvals',
    'listApprovals',
    'List calls of tools that wait for a person, and questions of agents. Set `status` to "waiting" for the open ones.',
  ],
  [
    'decide_approval',
    'decideApproval',
    'Approve or refuse a call that waits, or answer a question. It is final, and the call then runs: ask the user first.',
    'deletes',
  ],
];

const titleOf = (name: string): string => `${name[0]!.toUpperCase()}${name.slice(1).replaceAll('_', ' ')}`;

function partsOf(rowOf: RowOf, operation: string) {
  const { path, request } = rowOf(operation);
  const inPath = pathParameters(path).filter((parameter) => parameter !== 'workspace_id');
  const query = request?.query;
  const body = request?.body !== undefined && !isRaw(request.body) ? (request.body as z.ZodObject) : undefined;
  return { inPath, query, body };
}

const ofOperation = ([name, operation, description, changes]: (typeof OPERATIONS)[number]): ManagementTool => ({
  name: `platform_${name}`,
  title: titleOf(name),
  description,
  needs: operation,
  input(rowOf) {
    const { inPath, query, body } = partsOf(rowOf, operation);
    return z.object({
      ...Object.fromEntries(inPath.map((parameter) => [parameter, z.string()])),
      ...query?.shape,
      ...body?.shape,
      workspace_id,
    });
  },
  changes(rowOf) {
    const { method } = rowOf(operation);
    return changes ?? (method === 'GET' ? 'nothing' : method === 'DELETE' ? 'deletes' : 'something');
  },
  async call({ operations, args }) {
    const { inPath, query, body } = partsOf((name) => operations.row(name), operation);
    const params: Record<string, string> = {};
    for (const parameter of inPath) params[parameter] = await findId(operations, parameter, textOf(args, parameter));
    const only = (shape: object = {}) => Object.fromEntries(Object.entries(args).filter(([key]) => key in shape));
    return operations.send(operation, { params, query: only(query?.shape), ...(body && { body: only(body.shape) }) });
  },
});

/** Throws INVALID_INPUT for a missing member. */
function textOf(args: McpObject, name: string): string {
  const { [name]: value } = args;
  if (typeof value === 'string' && value !== '') return value.slice(0, 256);
  throw new PlatformError('INVALID_INPUT', `params.arguments.${name}: must be a string that is not empty.`);
}

const call = z.object({
  org: z.string().optional().describe('Workspace of the agent. Default: that of the connection.'),
  agent: z.string().describe('Name of the agent.'),
  version: z.string().default('latest').describe('Version: latest, a number such as v2, or the name of a channel.'),
  input: z.record(z.string(), z.unknown()).default({}).describe('Input that matches the input schema of the agent.'),
  workspace_id,
});
const search = z.object({
  search: z.string().max(200).optional().describe('Words of the name, the description or the tags.'),
  tags: z.string().max(500).optional().describe('Comma-separated; an agent must have them all.'),
  limit: z.int().min(1).max(50).default(20),
  offset: z.int().min(0).default(0),
});

const list = z.object({
  search: z.string().max(200).optional().describe('Part of the name, the description or a tag.'),
  workspace_id,
});

const LISTED_AGENTS = 500;
/** A search looks through so many pages of agents. */
const MAX_PAGES = 100;
const PAGE = 100;

const TOOLS: readonly ManagementTool[] = [
  {
    name: 'platform_search_agents',
    title: 'Search agents',
    description: 'Search the catalog of public agents. Call what it finds with platform_run_agent.',
    input: () => search,
    changes: 'nothing',
    needs: 'listPublicAgents',
    async call({ operations, args }) {
      const query = parsed(search, args);
      const found = (await operations.send('listPublicAgents', { query })) as AgentView[];
      return found.map(agentView);
    },
  },
  {
    name: 'platform_list_agents',
    title: 'List agents',
    description: `List the ${LISTED_AGENTS} newest agents of the workspace, or those that a search finds, in their latest versions, with input and output schemas.`,
    input: () => list,
    changes: 'nothing',
    async call({ deps, operations, args }) {
      const { workspace } = operations.caller;
      const search = parsed(list, args).search?.toLowerCase() ?? '';
      const all: McpObject[] = [];
      let cursor: string | undefined;
      for (let page = 0; page < MAX_PAGES; page++) {
        const { agents, nextCursor } = await listCurrent(deps, workspace.id, { limit: PAGE, cursor });
        all.push(...agents.filter(({ version }) => textOfAgent(version).includes(search)).map(ownAgentView));
        if (nextCursor === undefined || all.length >= LISTED_AGENTS) break;
        cursor = nextCursor;
      }
      return all.slice(0, LISTED_AGENTS);
    },
  },
  {
    name: 'platform_run_agent',
    title: 'Run an agent',
    description: 'Call an agent and wait for its answer. The call may cost money and have side effects.',
    input: () => call,
    changes: 'something',
    async call({ deps, scene, operations, args, context }) {
      const { caller } = operations;
      const { org = caller.workspace.slug, agent, version, input, workspace_id: named } = parsed(call, args);
      const isNamed = named !== undefined || scene.incoming.request.headers.has('x-workspace-id');
      // Some clients leave out the letter.
      const params = { org, agent, version: writtenVersion(version) };
      const sticking = { tenant: scene.incoming.headers['x-platform-tenant'] };
      const target = await findTarget(deps, params, caller, isNamed, sticking);
      const inScene = { ...scene, incoming: { ...scene.incoming, caller } };
      const sent = { tool: 'platform_run_agent', args };
      const called = await runAgent(deps, inScene, target, { args: input, sent }, context);
      const { meta, outcome } = called;
      if ('interim' in outcome) return new WholeResult(outcome.interim);
      if ('error' in outcome) return new WholeResult(failedResult(outcome.error, called.call.runId, meta));
      const { data, warnings } = outcome.answer;
      const { agent: ran } = called.call;
      const metadata = { run_id: called.call.runId, agent: fullNameOf(ran), version: versionName(ran.version) };
      const answer = { data, ...(warnings.length > 0 && { warnings }), metadata };
      return new WholeResult({ ...resultOf(answer), _meta: meta });
    },
  },
  ...OPERATIONS.map(ofOperation),
  {
    name: 'platform_trigger_schedule',
    title: 'Trigger a schedule',
    description: 'Run a schedule now and wait for the result. `input` replaces the input of the schedule.',
    input: () =>
      z.object({
        schedule: z.string().describe('Schedule ID or prefix, or the name of its agent.'),
        input: z.record(z.string(), z.unknown()).optional(),
        workspace_id,
      }),
    changes: 'something',
    needs: 'triggerSchedule',
    async call({ operations, args }) {
      const schedule_id = await findId(operations, 'schedule_id', textOf(args, 'schedule'));
      return operations.send('triggerSchedule', { params: { schedule_id }, body: args.input ?? {} });
    },
  },
  {
    name: 'platform_get_run_logs',
    title: 'Get the logs of a run',
    description: 'Show the input, logs and output of a run, or why it failed.',
    input: () => z.object({ run, workspace_id }),
    changes: 'nothing',
    async call({ operations, args }) {
      return operations.send('getRunLogs', { params: { run_id: await findRun(operations, textOf(args, 'run')) } });
    },
  },
  {
    name: 'platform_get_trace',
    title: 'Get the trace of a run',
    description: 'Show the steps of a run: model calls, tool calls and sub-calls, with durations and costs.',
    input: () => z.object({ run, workspace_id }),
    changes: 'nothing',
    async call({ operations, args }) {
      const params = { run_id: await findRun(operations, textOf(args, 'run')) };
      const { trace } = (await operations.send('getRunTrace', { params })) as {
        readonly trace: { readonly id: string };
      };
      const page = await operations.send('listTraceEvents', {
        params: { trace_id: trace.id },
        query: { limit: 1000 },
      });
      const { events, total } = page as McpObject;
      return { trace, events, total };
    },
  },
];

interface AgentView extends McpObject {
  readonly org_slug?: unknown;
}

const agentView = ({
  org_slug,
  name,
  version,
  type,
  description,
  runnable,
  input_schema,
  output_schema,
}: AgentView) => ({
  ...{ org: org_slug, agent: name, version, type, description, runnable, input_schema, output_schema },
});

const textOfAgent = ({ name, definition: { description, tags } }: AgentVersion): string =>
  [name, description ?? '', ...tags].join('\n').toLowerCase();

const ownAgentView = ({ version: { orgSlug, name, version, runnable, definition } }: CurrentAgent) => {
  const { type, description, input_schema, output_schema } = definition;
  return {
    ...{ org: orgSlug, agent: name, version: versionName(version), type, description, runnable },
    ...{ input_schema, output_schema },
  };
};

function parsed<T>(schema: z.ZodType<T>, args: McpObject): T {
  const { data, error } = schema.safeParse(args);
  if (error === undefined) return data;
  const { path, message } = error.issues[0]!;
  throw new PlatformError('INVALID_INPUT', `${['params.arguments', ...path].join('.')}: ${message}.`);
}

/** Returns all tools of the platform as clients see them. */
export const describeTools = (rowOf: RowOf): McpTool[] =>
  TOOLS.map(({ name, title, description, input, changes }) => {
    const effect = typeof changes === 'string' ? changes : changes(rowOf);
    // The operations check the members: some types cannot be expressed in JSON Schema.
    const { $schema: _, ...inputSchema } = z.toJSONSchema(input(rowOf), { io: 'input', unrepresentable: 'any' });
    const annotations = { readOnlyHint: effect === 'nothing', destructiveHint: effect === 'deletes' };
    return { name, title, description, inputSchema: inputSchema as McpObject, annotations };
  });

/** Operations by the tools that need the right to use them. */
const NEEDS = new Map(TOOLS.map(({ name, needs }) => [name, needs]));

/** Returns the tools of the platform that the key of the caller may use. */
export const managementTools = (operations: Operations): McpTool[] =>
  operations.tools.filter(({ name }) => {
    const needs = NEEDS.get(name);
    return needs === undefined || operations.allows(needs);
  });

/** Calls a tool of the platform. Throws {@link McpError} for an unknown one, and the errors of its operations. */
export async function callManagementTool(
  deps: Deps,
  scene: Scene,
  { name, args, context }: { readonly name: string; readonly args: McpObject; readonly context: McpContext },
): Promise<McpObject> {
  const tool = TOOLS.find((each) => each.name === name);
  if (tool === undefined) throw unknownTool(name);
  const { workspace_id: named } = args;
  if (named !== undefined && typeof named !== 'string') {
    throw new PlatformError('INVALID_INPUT', 'params.arguments.workspace_id: must be a string.');
  }
  const operations = await scene.operations.inWorkspace(named);
  const answer = await tool.call({ deps, scene, operations, args, context });
  return answer instanceof WholeResult ? answer.result : resultOf(answer);
}

/** Returns an answer as a result: other values than objects are its member `output`. */
const resultOf = (answer: unknown): McpObject => ({
  content: [{ type: 'text', text: JSON.stringify(answer ?? null) }],
  structuredContent:
    typeof answer === 'object' && answer !== null && !Array.isArray(answer) ? answer : { output: answer ?? null },
});
