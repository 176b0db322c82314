import * as z from 'zod';
import { RUN_STATUSES, TRIGGER_LIST } from '#core/base/run-kinds.ts';
import { flag } from '#core/http/flag.ts';
import { requestTime } from '#core/http/request-time.ts';
import { defineRoutes } from '#core/http/route.ts';
import { RUN_ID_PREFIX } from './items.ts';
import { heldByView } from './queues/held-by.ts';
import { BRANCH_CHANGES } from './run.ts';

const status = z.enum(RUN_STATUSES);
const time = z.iso.datetime();

/** Members of a run filter, in a query or in the `filter` of a body. */
export const runFilter = {
  agent_name: z.string().max(200).optional(),
  version: z
    .string()
    .regex(/^[\w.-]{1,64}$/, 'must be a version such as v3')
    .optional()
    .describe('A version of the agent, such as `v3`.'),
  status: status.optional(),
  schedule_id: z.uuid().optional(),
  trigger_source: z.string().max(64).optional().describe(`What started the run: ${TRIGGER_LIST}.`),
  tenant_id: z.string().max(128).optional(),
  from: requestTime.optional().describe('Runs that started at this time or later.'),
  to: requestTime.optional().describe('Runs that started before this time.'),
};
export const EXHAUSTED =
  'True: only runs with a retry policy that failed for good and were not replayed since. False: only other runs.';
export const TOP_LEVEL = 'True: only runs that no other run called. False: only sub-calls.';

/** A run as everybody who may see it sees it. */
export const runSummary = z.object({
  id: z.uuid(),
  agent_name: z.string(),
  agent_version: z.string(),
  status,
  error_message: z.string().nullable(),
  duration_ms: z.int().nullable(),
  trigger_source: z.string().nullable(),
  started_at: time.nullable().describe('Null while the run waits for its time.'),
  created_at: time,
  run_at: time.nullable().describe('When the run begins, if the call named a time.'),
});

/** A run as lists show it. */
export const listedRun = runSummary.extend({
  channel: z.string().nullable().describe('The channel that led to this version. Null: the call named none.'),
  is_canary: z.boolean().describe('Whether the version was the canary of the channel.'),
  attempt: z
    .int()
    .nullable()
    .describe(
      'Number of the current or last try, or of the next one while the run waits for it. Null: the run has no retry policy.',
    ),
  next_attempt_at: time.nullable().describe('When the next try begins, of a run that waits for it.'),
  held_by: heldByView
    .nullable()
    .describe('The rule that keeps it from beginning or continuing, of a run that waits for its turn.'),
  exhausted: z
    .boolean()
    .describe('Whether it failed for good in spite of its retry policy, and was not replayed since.'),
});

const branch = z.object({
  from_turn: z.int().describe('Turn of the original run that this one begins with; the turns before it are copied.'),
  changed: z.array(z.enum(BRANCH_CHANGES)).describe('What is changed of the turns before.'),
});

const run = listedRun.extend({
  endpoint: z.string(),
  error_code: z.string().nullable(),
  completed_at: time.nullable(),
  parent_run_id: z.uuid().nullable(),
  root_run_id: z.uuid(),
  replay_of_run_id: z.uuid().nullable(),
  branch: branch
    .nullable()
    .describe('The turn of the original run from which this one begins again. Null: it begins at its beginning.'),
  has_turns: z
    .boolean()
    .describe('Whether it is a run of a durable loop: a replay can begin from its turns for a day after its end.'),
  tenant_id: z.string().nullable(),
  session_id: z.string().nullable().describe('The session that it is a message of.'),
  deadline: time.describe('When the run is ended as `timeout` if it is still running.'),
  schedule_id: z.uuid().nullable(),
  scheduled_at: time.nullable().describe('The moment that a schedule ran it for, in UTC.'),
  scheduled_local: z.string().nullable().describe("The same as local time of the schedule's zone, with its offset."),
  scheduled_zone: z.string().nullable(),
  input_tokens: z.int().nullable(),
  output_tokens: z.int().nullable(),
  cache_read_tokens: z.int().nullable().describe("Part of the input that was read from the provider's cache."),
  cache_write_tokens: z.int().nullable().describe("Part of the input that was written to the provider's cache."),
  llm_provider: z.string().nullable(),
  llm_model: z.string().nullable(),
  cost_usd: z.number().nullable(),
  credits_cents: z.int(),
  input_data: z.unknown(),
  output_data: z.unknown(),
  max_attempts: z.int().nullable().describe('Number of tries that its retry policy allows.'),
  failed_attempts: z
    .array(
      z.object({
        started_at: time,
        duration_ms: z.int(),
        error_code: z.string(),
        error_message: z.string(),
        cost_usd: z.number().optional().describe('Absent if the price of a model is not known.'),
      }),
    )
    .describe(
      'Tries before the current or last one, oldest first. Other members describe the last try, with the sums of all.',
    ),
});

const node = z.object({
  run_id: z.uuid(),
  agent_name: z.string(),
  agent_version: z.string(),
  status,
  duration_ms: z.int().nullable(),
  started_at: time,
  self_cost_usd: z.number(),
  subtree_cost_usd: z.number(),
  cost_pct: z.number().describe('Cost of this run and its sub-calls, in percent of the whole chain.'),
  input_tokens: z.int(),
  output_tokens: z.int(),
  llm_model: z.string().nullable(),
  llm_provider: z.string().nullable(),
  trace_summary: z.object({
    llm_calls: z.int(),
    tool_calls: z.int(),
    errors: z.int(),
    total_tokens: z.int(),
    total_cost_usd: z.number(),
  }),
  get children() {
    return z.array(node);
  },
});
// Named, so that the recursive schema can be referenced in the OpenAPI document.
node.register(z.globalRegistry, { id: 'RunNode' });

/** A step of a run, in its trace and in the event stream. */
export const traceStep = z.object({
  event_type: z.string(),
  span_id: z.string().optional().describe('Id of the step, on the start and end events of steps that take time.'),
  parent_span_id: z.string().optional().describe('The parent step; the run itself has the `span_id` of the trace.'),
  started_at: time.optional(),
  ended_at: time.optional(),
  payload: z.record(z.string(), z.unknown()),
  provider: z.string().optional(),
  model: z.string().optional(),
  token_input: z.int().optional(),
  token_output: z.int().optional(),
  cache_read_tokens: z.int().optional(),
  cache_write_tokens: z.int().optional(),
  cost_usd: z.number().optional(),
  duration_ms: z.int().optional(),
  error_type: z.string().optional(),
  error_message: z.string().optional(),
  created_at: time,
});

const text = z.object({
  text: z.string(),
  bytes: z.int().describe('Size of the whole text in UTF-8, in bytes.'),
  is_cut: z.literal(true).optional().describe('True if the text is truncated to its beginning and end.'),
});
export const traceContent = z
  .object({
    messages: z
      .array(
        text.extend({
          role: z.enum(['system', 'user', 'assistant', 'tool_call', 'tool']),
          tool_name: z.string().optional(),
          is_error: z.literal(true).optional(),
          files: z.array(z.object({ name: z.string(), media_type: z.string(), bytes: z.int() })).optional(),
        }),
      )
      .optional(),
    left_out: z.int().optional().describe('Number of older messages of this step that are not stored.'),
    arguments: text.optional(),
    result: text.optional(),
  })
  .describe('Content of the step, if the workspace stores it (`trace_content`) and the query requests it.');

const event = traceStep.extend({
  id: z.string(),
  trace_id: z.uuid(),
  sequence_no: z.int(),
  content: traceContent.optional(),
});

/** A step as waterfalls show it: its start and its end in one. */
export const waterfallStep = traceStep.omit({ event_type: true, created_at: true }).extend({
  kind: z.string().describe('`llm_call`, `tool_call`, `sandbox`, `setup_step`, `queue`, or another type of event.'),
  status: z
    .enum(['running', 'succeeded', 'failed', 'event'])
    .describe('How the step is, or how it ended. `event`: a step that takes no time.'),
  parent_span_id: z.string(),
  started_at: time,
  ended_at: time.nullable(),
});

const waterfallRun = z.object({
  run_id: z.uuid(),
  parent_run_id: z.uuid().nullable(),
  span_id: z.string(),
  parent_span_id: z.string().nullable().describe('The step of the calling run that was active when it began.'),
  agent_name: z.string(),
  agent_version: z.string(),
  engine: z.string().nullable(),
  status,
  started_at: time,
  completed_at: time.nullable(),
  duration_ms: z.int().nullable(),
  input_tokens: z.int().nullable(),
  output_tokens: z.int().nullable(),
  cost_usd: z.number().nullable(),
  llm_model: z.string().nullable(),
  error_code: z.string().nullable(),
  error_message: z.string().nullable(),
  has_content: z.boolean().describe('Whether content is stored for the events of its trace.'),
  steps: z.array(waterfallStep),
});

const RUN = '/workspaces/{workspace_id}/runs/{run_id}';
/** `run_id` is a run's id, its request id, or the first digits of either. */
const row = { fn: 'runs', auth: 'key', errors: ['NOT_FOUND', 'CONFLICT'] } as const;

export const runRoutes = defineRoutes([
  {
    operationId: 'listRuns',
    method: 'GET',
    path: '/workspaces/{workspace_id}/runs',
    summary: "List a workspace's runs, newest first",
    fn: 'runs',
    auth: 'key',
    request: {
      query: z.object({
        ...runFilter,
        top_level: flag.optional().describe(TOP_LEVEL),
        exhausted: flag.optional().describe(EXHAUSTED),
        run_id_prefix: z
          .string()
          .regex(RUN_ID_PREFIX, 'must be 7 or more hexadecimal digits')
          .optional()
          .describe('The first 7 or more digits of the id, or of the request id.'),
        limit: z.coerce.number().int().min(1).max(200).default(20),
        offset: z.coerce
          .number()
          .int()
          .min(0)
          .default(0)
          .describe('Skips runs among the newest 1,000. `cursor` reaches all of them.'),
        cursor: z.string().max(400).optional().describe('`next_cursor` of the previous page, with the same filters.'),
      }),
    },
    response: {
      200: z.object({
        runs: z.array(listedRun),
        total: z
          .int()
          .describe('Number of matching runs among the newest 1,000 and the pages up to this one: a lower bound.'),
        total_is_exact: z.boolean().describe('Whether `total` counts all matching runs.'),
        next_cursor: z
          .string()
          .nullable()
          .describe('Cursor of the next page, which may have fewer runs than `limit`; null if there are no more.'),
      }),
    },
  },
  {
    ...row,
    operationId: 'getRun',
    agents: true,
    method: 'GET',
    path: RUN,
    summary: 'Show a run, with its input and output',
    request: {
      query: z.object({
        body: flag.default(true).describe('False omits input and output, which may be large; they are null.'),
      }),
    },
    response: { 200: run },
  },
  {
    ...row,
    operationId: 'cancelRun',
    keyScope: 'run',
    method: 'DELETE',
    path: RUN,
    summary: 'Cancel a run and all its sub-calls; a run that has ended does not change',
    response: { 200: run },
  },
  {
    ...row,
    operationId: 'requestRunCancel',
    keyScope: 'run',
    method: 'POST',
    storesNothing: true,
    path: `${RUN}/cancel`,
    summary: 'Cancel a run and all its sub-calls; a run that has ended does not change',
    response: { 200: run },
  },
  {
    ...row,
    operationId: 'getRunLogs',
    method: 'GET',
    path: `${RUN}/logs`,
    summary: 'Show the logs of a run',
    response: {
      200: z.object({
        run_id: z.uuid(),
        agent_name: z.string().nullable(),
        agent_version: z.string().nullable(),
        run_status: status.nullable(),
        error_message: z.string().nullable(),
        input_data: z.unknown(),
        output_data: z.unknown(),
        has_execution_log: z.boolean(),
        stdout: z.string().nullable(),
        stderr: z.string().nullable(),
        exit_code: z.int().nullable(),
        execution_time_ms: z.int().nullable(),
      }),
    },
  },
  {
    ...row,
    operationId: 'listRunBranches',
    method: 'GET',
    path: `${RUN}/branches`,
    summary: 'List the runs that begin again from a turn of a run, newest first: the newest 200',
    response: { 200: z.object({ run_id: z.uuid(), branches: z.array(listedRun.extend(branch.shape)) }) },
  },
  {
    ...row,
    operationId: 'getRunDag',
    method: 'GET',
    path: `${RUN}/dag`,
    summary: 'Show the tree of calls that a run is part of, with their costs',
    response: {
      200: z.object({
        root_run_id: z.uuid(),
        is_live: z.boolean(),
        total_cost_usd: z.number(),
        total_duration_ms: z.int(),
        node_count: z.int(),
        active_count: z.int(),
        completed_count: z.int(),
        failed_count: z.int(),
        most_expensive_agent: z.string().nullable(),
        tree: node,
      }),
    },
  },
  {
    ...row,
    operationId: 'getRunWaterfall',
    method: 'GET',
    path: `${RUN}/waterfall`,
    summary: 'Show all runs of a chain with their steps, even while they run',
    request: {
      query: z.object({
        limit: z.coerce
          .number()
          .int()
          .min(1)
          .max(4000)
          .default(2000)
          .describe('Maximum steps on a page. All steps of a run are on the same page, even if they exceed it.'),
        cursor: z.coerce.number().int().min(0).default(0).describe('`next_cursor` of the previous page.'),
      }),
    },
    response: {
      200: z.object({
        root_run_id: z.uuid(),
        is_live: z.boolean(),
        total_runs: z.int(),
        runs: z.array(waterfallRun).describe('Runs of the chain on this page, oldest first.'),
        next_cursor: z.string().nullable(),
      }),
    },
  },
  {
    ...row,
    operationId: 'getRunTrace',
    method: 'GET',
    path: `${RUN}/trace`,
    summary: 'Show the trace of a run',
    response: {
      200: z.object({
        trace: z.object({
          id: z.uuid(),
          run_id: z.uuid(),
          span_id: z.string(),
          parent_run_id: z.uuid().nullable(),
          root_run_id: z.uuid(),
          workspace_id: z.uuid(),
          status,
          created_at: time,
          completed_at: time.optional(),
        }),
      }),
    },
  },
  {
    ...row,
    operationId: 'listTraceEvents',
    method: 'GET',
    path: '/workspaces/{workspace_id}/traces/{trace_id}/events',
    summary: 'List the events of a run: calls of models and tools, with their times and costs',
    request: {
      query: z.object({
        limit: z.coerce.number().int().min(1).max(1000).default(500),
        offset: z.coerce.number().int().min(0).default(0),
        cursor: z.coerce.number().int().min(0).optional().describe('`next_cursor` of the previous page.'),
        span_id: z
          .string()
          .regex(/^[0-9a-f]{16}$/, 'must be 16 hexadecimal digits')
          .optional()
          .describe('Only the beginning and the end of this step.'),
        content: flag
          .default(false)
          .describe('True includes the content of the steps. A page may then have fewer events.'),
      }),
    },
    response: {
      200: z.object({
        events: z.array(event),
        total: z.int(),
        cursor: z.string(),
        next_cursor: z.string().nullable(),
      }),
    },
  },
]);
