import * as z from 'zod';
import { MAX_WAIT_SECONDS } from '#core/base/time-limits.ts';
import { defineRoutes, raw } from '#core/http/route.ts';
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
      '`approve`: the call of a tool. `answer`: a question. `event`: the run waits for an event. `time`: nobody is asked, the run waits for a time.',
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
  edited: z.boolean().describe('Whether it was approved with other arguments.'),
  changed_arguments: z
    .unknown()
    .describe('Arguments with which the call was approved, if they were changed; else null.'),
  answer: z.unknown().describe('The answer to a question, or what the event brought; else null.'),
  reason: z.string().nullable().describe('Why it was approved or refused, if somebody said so.'),
  for_run: z.boolean().describe('Whether later calls of the tool in this run were approved, too.'),
  decided_by: z.string().nullable().describe('Id of the user, `link`, or `event`. Null: nobody has decided.'),
  decided_at: time.nullable().describe('When it was decided. Null: not yet.'),
});

const APPROVALS = '/workspaces/{workspace_id}/approvals';
const row = { fn: 'runs', auth: 'key' } as const;

/** What audit entries say of a call. */
const ABOUT = { run_id: 'run_id', agent_name: 'agent_name', tool: 'tool', edited: 'edited' } as const;

const text = z.string().max(4000);

/** What a person decides; `handlers.ts` checks what goes together. */
export const decisionBody = z.strictObject({
  decision: z
    .enum(['approve', 'deny', 'answer'])
    .describe('`approve` or `deny` for the call of a tool, `answer` for a question or an event.'),
  arguments: z
    .record(z.string(), z.unknown())
    .optional()
    .describe('Only with `approve`: arguments in place of those of the model. They must match `schema`.'),
  answer: z.unknown().optional().describe('Only with `answer`: a text, or what `schema` says; for an event, any JSON.'),
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
        kinds: z
          .string()
          .regex(
            new RegExp(`^(${APPROVAL_KINDS.join('|')})(,(${APPROVAL_KINDS.join('|')}))*$`),
            `must be of ${APPROVAL_KINDS.join(', ')}`,
          )
          .optional()
          .describe('Comma-separated kinds: `approve,answer` is what people decide. Default: all.'),
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
    audit: { request: ['decision', 'for'], response: ABOUT },
    request: { body: decisionBody },
    response: { 200: approval },
    errors: ['NOT_FOUND', 'CONFLICT', 'INVALID_INPUT'],
  },
  {
    ...row,
    operationId: 'createApprovalLink',
    method: 'POST',
    path: `${APPROVALS}/{approval_id}/link`,
    summary: 'Create a link with which a person without an account decides, once',
    keyScope: 'approve',
    audit: {
      request: ['expires_in_seconds'],
      response: { run_id: 'run_id', agent_name: 'agent_name', tool: 'tool', expires_at: 'expires_at' },
    },
    request: {
      body: z.strictObject({
        expires_in_seconds: z
          .int()
          .min(60)
          .max(MAX_WAIT_SECONDS)
          .optional()
          .describe('How long the link is valid. By default, and at most, as long as the call waits.'),
      }),
    },
    response: {
      201: z.object({
        approval_id: z.string().describe('Id of what waits.'),
        ...approval.pick({ run_id: true, agent_name: true, tool: true }).shape,
        url: z.string().describe('The link. Only this answer shows it; whoever has it can decide.'),
        expires_at: time.describe('From then on the link is refused.'),
      }),
    },
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
  {
    fn: 'runs',
    auth: 'webhook',
    operationId: 'receiveEvent',
    method: 'POST',
    path: '/webhooks/events/{event}',
    summary: 'Say that an event has happened for which a run waits, or will wait',
    // Senders use any content type.
    request: { body: { ...raw('application/json'), optional: true } },
    response: {
      200: z.object({
        received: z.literal(true),
        waiting: z.boolean().describe('Whether the run waited for it. If not, the event is kept until it does.'),
      }),
    },
    errors: ['NOT_FOUND', 'CONFLICT', 'FORBIDDEN', 'INVALID_INPUT', 'UNSUPPORTED_TYPE', 'DOCUMENT_TOO_LARGE'],
  },
]);

/** What a person decides by a link: about this call as it is, and no other. */
export const linkDecisionBody = decisionBody.pick({ decision: true, answer: true, reason: true });

const HTML = 'text/html';
const FORM = 'application/x-www-form-urlencoded';
const linked = approval
  .pick({ agent_name: true, agent_version: true, kind: true, status: true, tool: true, arguments: true })
  .extend(approval.pick({ question: true, options: true, schema: true, asked_at: true, expires_at: true }).shape)
  .extend({ decided_at: time.nullable().describe('When it was decided. Null: not yet.') });
/** The parameter is the secret part of a link. */
const link = { fn: 'runs', auth: 'public', path: '/auth/approvals/{token}', alsoRaw: [HTML] } as const;

export const approvalLinkRoutes = defineRoutes([
  {
    ...link,
    operationId: 'getApprovalLink',
    method: 'GET',
    summary: 'Show what a link asks: a page for browsers, else JSON. Decides nothing',
    response: { 200: linked },
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
  {
    ...link,
    operationId: 'decideByLink',
    method: 'POST',
    summary: 'Decide by a link, once',
    request: {
      body: { raw: [FORM, 'application/json'], shapes: { 'application/json': linkDecisionBody } },
    },
    response: { 200: linked },
    errors: ['NOT_FOUND', 'CONFLICT', 'FORBIDDEN', 'INVALID_INPUT'],
  },
]);
