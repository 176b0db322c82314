import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';
import { APPROVAL_KINDS, APPROVAL_STATUSES } from './approval.ts';

const time = z.iso.datetime();

const approval = z.object({
  id: z.string().describe('The id of the run, the turn, and the number of the call in the turn.'),
  run_id: z.uuid(),
  agent_name: z.string(),
  agent_version: z.string(),
  tenant_id: z.string().nullable(),
  kind: z
    .enum(APPROVAL_KINDS)
    .describe(
      '`approve`: the call of a tool. `answer`: a question. `time`: nobody is asked, the run waits for a time.',
    ),
  status: z.enum(APPROVAL_STATUSES),
  tool: z.string().describe('Name of the tool, as the model sees it.'),
  arguments: z.unknown().describe('Arguments of the call, with secrets masked.'),
  question: z.string().nullable().describe('What a person is asked. Null for calls of other tools.'),
  options: z.array(z.string()).nullable().describe('Answers to choose from.'),
  schema: z
    .record(z.string(), z.unknown())
    .nullable()
    .describe('JSON Schema of the arguments, or of the answer. Null: none, or it is too long.'),
  asked_at: time.describe('When the run began to wait for it.'),
  expires_at: time.describe('From then on nothing can be decided.'),
  on_timeout: z
    .enum(['deny', 'fail', 'continue'])
    .describe(
      'What happens when nobody has decided in time. `deny`: the model is told. `fail`: the run ends. `continue`: it waited for that time.',
    ),
  changed_arguments: z
    .unknown()
    .describe('Arguments with which the call was approved, if they were changed; else null.'),
  answer: z.unknown().describe('The answer to a question, else null.'),
  reason: z.string().nullable().describe('Why it was approved or refused, if somebody said so.'),
  for_run: z.boolean().describe('Whether later calls of the tool in this run were approved, too.'),
  decided_by: z.string().nullable().describe('Id of the user, or `link`. Null: nobody has decided.'),
  decided_at: time.nullable().describe('When it was decided. Null: not yet.'),
});

const APPROVALS = '/workspaces/{workspace_id}/approvals';
const row = { fn: 'runs', auth: 'key' } as const;

const text = z.string().max(4000);

/** What a person decides; `handlers.ts` checks what goes together. */
export const decisionBody = z.strictObject({
  decision: z
    .enum(['approve', 'deny', 'answer'])
    .describe('`approve` or `deny` for the call of a tool, `answer` for a question.'),
  arguments: z
    .record(z.string(), z.unknown())
    .optional()
    .describe('Only with `approve`: arguments in place of those of the model. They must match `schema`.'),
  answer: z.unknown().optional().describe('Only with `answer`: a text, or what `schema` says.'),
  reason: text.optional().describe('Only with `approve` and `deny`. The model is told why it was refused.'),
  for: z
    .enum(['this', 'run'])
    .default('this')
    .describe('Only with `approve`: `run` approves all later calls of the tool in this run, too.'),
});

export const approvalRoutes = defineRoutes([
  {
    ...row,
    operationId: 'listApprovals',
    method: 'GET',
    path: APPROVALS,
    summary: 'List the calls of tools that wait for a decision, newest first',
    request: {
      query: z.object({
        status: z.enum(APPROVAL_STATUSES).optional().describe('Default: all.'),
        agent_name: z.string().max(200).optional(),
        run_id: z.uuid().optional().describe('Only calls of this run, on one page.'),
        limit: z.coerce.number().int().min(1).max(200).default(50),
        cursor: z.string().max(2000).optional().describe('`next_cursor` of the page before.'),
      }),
    },
    response: {
      200: z.object({
        approvals: z.array(approval).describe('Calls that wait or waited, newest first.'),
        next_cursor: z.string().nullable(),
      }),
    },
    errors: ['INVALID_INPUT'],
  },
  {
    ...row,
    operationId: 'getApproval',
    method: 'GET',
    path: `${APPROVALS}/{approval_id}`,
    summary: 'Show a call of a tool that waits or waited for a decision',
    response: { 200: approval },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'decideApproval',
    method: 'POST',
    path: `${APPROVALS}/{approval_id}/decision`,
    summary: 'Approve or refuse a call that waits, or answer a question',
    keyScope: 'approve',
    audit: { request: ['decision', 'for'], response: { run_id: 'run_id', agent_name: 'agent_name', tool: 'tool' } },
    request: { body: decisionBody },
    response: { 200: approval },
    errors: ['NOT_FOUND', 'CONFLICT', 'INVALID_INPUT'],
  },
]);
