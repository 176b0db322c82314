import * as z from 'zod';
import type { Client } from '#core/api/client.ts';
import { isRaw, pathParameters } from '#core/http/route.ts';
import type { OperationId } from '../operation.ts';
import { publishFolder } from '../publishing/publish-folder.ts';
import { readFolder } from '../publishing/read-folder.ts';
import { newestVersions } from '../shared/agent-reference.ts';
import type { Cli } from '../shared/cli.ts';
import { findId } from '../shared/find-id.ts';
import { routeOf } from '../shared/route-of.ts';
import { runParams } from '../shared/run-params.ts';

/** `deletes` stands for everything that cannot be undone. */
type Effect = 'nothing' | 'something' | 'deletes';

/** A tool of `platform mcp`. */
export interface McpTool {
  readonly name: string;
  readonly description: string;
  readonly input: z.ZodObject;
  /** Effect that clients may ask the user to confirm. */
  readonly changes: Effect;
  /** Returns the JSON result. Throws UsageError and the errors of its requests. */
  call(cli: Cli, args: Readonly<Record<string, unknown>>): Promise<unknown>;
}

const workspace_id = z.string().optional().describe('Workspace ID. Default: the workspace of the CLI.');
const run = z.string().describe('Run ID or prefix, or the name of an agent (its latest run).');

/** Tools that map to one operation of the API and have its input. */
const OPERATIONS: readonly (readonly [name: string, operation: OperationId, description: string, changes?: Effect])[] =
  [
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

const ofOperation = ([name, operation, description, changes]: (typeof OPERATIONS)[number]): McpTool => {
  const { method, path, request } = routeOf(operation);
  const inPath = pathParameters(path).filter((parameter) => parameter !== 'workspace_id');
  const query = request?.query as z.ZodObject | undefined;
  const body = request?.body !== undefined && !isRaw(request.body) ? (request.body as z.ZodObject) : undefined;
  return {
    name: `platform_${name}`,
    description,
    input: z.object({
      ...Object.fromEntries(inPath.map((parameter) => [parameter, z.string()])),
      ...query?.shape,
      ...body?.shape,
      workspace_id,
    }),
    changes: changes ?? (method === 'GET' ? 'nothing' : method === 'DELETE' ? 'deletes' : 'something'),
    async call(cli, args) {
      const params: Record<string, string> = {};
      if (path.includes('{workspace_id}')) params.workspace_id = await cli.workspaceId();
      for (const parameter of inPath) params[parameter] = await findId(cli, parameter, String(args[parameter]));
      const only = (shape: object = {}) => Object.fromEntries(Object.entries(args).filter(([key]) => key in shape));
      const send = (await cli.client())[operation] as (args: object) => Promise<unknown>;
      return send({ params, query: only(query?.shape), ...(body && { body: only(body.shape) }) });
    },
  };
};

const call = z.object({
  org: z.string().optional().describe('Workspace of the agent. Default: your own.'),
  agent: z.string(),
  version: z.string().default('latest').describe('Version: latest, or a number such as v2.'),
  input: z.record(z.string(), z.unknown()).default({}).describe('Input that matches the input schema of the agent.'),
  workspace_id,
});

export const MCP_TOOLS: readonly McpTool[] = [
  {
    name: 'platform_list_agents',
    description: 'List the agents of the workspace in their latest versions, with input and output schemas.',
    input: z.object({ workspace_id }),
    changes: 'nothing',
    async call(cli) {
      const all = await newestVersions(await cli.client());
      return all.map(({ org_slug, name, version, type, description, runnable, input_schema, output_schema }) => ({
        ...{ org: org_slug, agent: name, version, type, description, runnable, input_schema, output_schema },
      }));
    },
  },
  {
    name: 'platform_run_agent',
    description:
      'Call an agent and wait up to 300 seconds for its answer. The call may cost money and have side effects.',
    input: call,
    changes: 'something',
    async call(cli, args) {
      const { org = (await cli.org()).slug, agent, version = 'latest', input = {} } = args as z.input<typeof call>;
      const params = { org, agent, version, endpoint: 'run' };
      return (await cli.client()).callAgent({ params, body: input });
    },
  },
  ...OPERATIONS.map(ofOperation),
  {
    name: 'platform_trigger_schedule',
    description: 'Run a schedule now and wait for the result. `input` replaces the input of the schedule.',
    input: z.object({
      schedule: z.string().describe('Schedule ID or prefix, or the name of its agent.'),
      input: z.record(z.string(), z.unknown()).optional(),
      workspace_id,
    }),
    changes: 'something',
    async call(cli, { schedule, input = {} }) {
      const schedule_id = await findId(cli, 'schedule_id', String(schedule));
      const params = { workspace_id: await cli.workspaceId(), schedule_id };
      const body = input as Parameters<Client['triggerSchedule']>[0]['body'];
      return (await cli.client()).triggerSchedule({
        ...{ params, body },
        // The key makes a retry after a lost response safe: it starts no second run.
        headers: { 'idempotency-key': crypto.randomUUID() },
      });
    },
  },
  {
    name: 'platform_get_run_logs',
    description: 'Show the input, logs and output of a run, or why it failed.',
    input: z.object({ run, workspace_id }),
    changes: 'nothing',
    call: async (cli, args) => (await cli.client()).getRunLogs({ params: await runParams(cli, String(args.run)) }),
  },
  {
    name: 'platform_get_trace',
    description: 'Show the steps of a run: model calls, tool calls and sub-calls, with durations and costs.',
    input: z.object({ run, workspace_id }),
    changes: 'nothing',
    async call(cli, args) {
      const client = await cli.client();
      const params = await runParams(cli, String(args.run));
      const { trace } = await client.getRunTrace({ params });
      const { workspace_id: workspace } = params;
      const page = await client.listTraceEvents({
        params: { workspace_id: workspace, trace_id: trace.id },
        query: { limit: 1000 },
      });
      return { trace, events: page.events, total: page.total };
    },
  },
  {
    name: 'platform_publish',
    description: 'Publish an agent from a local folder with an agent.json or a SKILL.md. No-op if nothing changed.',
    input: z.object({
      folder: z.string().describe('Path of the folder, relative to the working directory of this server.'),
      workspace_id,
    }),
    changes: 'something',
    async call(cli, args) {
      const folder = await readFolder(cli, String(args.folder));
      const made = await publishFolder(await cli.client(), folder, { onInstall: () => {} });
      const { agent, unchanged, failure, warnings } = made;
      const { org_slug, name, version, runnable } = agent;
      return { agent: `${org_slug}/${name}@${version}`, runnable, unchanged, failure, warnings };
    },
  },
];
