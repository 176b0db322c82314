import { escapeControls } from '#core/base/control-characters.ts';
import { PlatformError } from '#core/base/errors.ts';
import { type Json, parseJsonValue } from '#core/base/json.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type Approval, approvalIdOf } from '#core/runs/approvals/approval.ts';
import { decisionBody } from '#core/runs/approvals/routes.ts';
import { type Answering, answerQuestion, type Sent } from '../questions.ts';

type Schema = { readonly [member: string]: Json };

/** What a client asks its user, by MCP: a flat form. */
interface Elicitation {
  readonly method: 'elicitation/create';
  readonly params: { readonly mode: 'form'; readonly message: string; readonly requestedSchema: Form };
}
interface Form {
  readonly type: 'object';
  readonly properties: { readonly [name: string]: Schema };
  readonly required?: readonly string[];
}

export interface InputRequests {
  readonly [approvalId: string]: Elicitation;
}

/** Maximum number of characters of a message: clients show it in a dialog. */
const MAX_MESSAGE = 4000;

/** The calls that wait as elicitations of MCP, by the ids of their approvals (`docs/interface/mcp.md#questions`). */
export const inputRequestsOf = (approvals: readonly Approval[]): InputRequests =>
  Object.fromEntries(approvals.map((approval) => [approvalIdOf(approval), elicitationOf(approval)]));

const elicitationOf = (approval: Approval): Elicitation => ({
  method: 'elicitation/create',
  params: { mode: 'form', message: messageOf(approval), requestedSchema: formOf(approval).schema },
});

function messageOf({ kind, question, agentName, tool, args }: Approval): string {
  // The texts come from a model.
  const text =
    kind === 'answer' ? (question ?? tool) : `${agentName} asks to call ${tool} with these arguments:\n${json(args)}`;
  const escaped = escapeControls(text);
  return escaped.length <= MAX_MESSAGE ? escaped : `${escaped.slice(0, MAX_MESSAGE - 1)}…`;
}

const json = (value: Json): string => JSON.stringify(value, null, 1) ?? 'null';

/** A form, and what its content stands for: a decision, the whole answer, or the member `answer` of it. */
interface Asking {
  readonly schema: Form;
  readonly content: 'decision' | 'whole' | 'member' | 'json';
}

const ANSWER = 'answer';

function formOf({ kind, options, schema }: Approval): Asking {
  if (kind === 'approve') {
    return {
      content: 'decision',
      schema: {
        type: 'object',
        properties: {
          approve: { type: 'boolean', title: 'Approve', description: 'Whether the call is made.' },
          reason: { type: 'string', title: 'Reason', description: 'The agent is told why.', maxLength: 4000 },
        },
        required: ['approve'],
      },
    };
  }
  const member = (field: Schema, content: Asking['content'] = 'member'): Asking => ({
    content,
    schema: { type: 'object', properties: { [ANSWER]: field }, required: [ANSWER] },
  });
  if (options !== undefined) return member({ type: 'string', title: 'Answer', enum: [...options] });
  if (schema === undefined) return member({ type: 'string', title: 'Answer' });
  const field = fieldOf(schema);
  if (field !== undefined) return member(field);
  const whole = wholeFormOf(schema);
  if (whole !== undefined) return { content: 'whole', schema: whole };
  return member({ type: 'string', title: 'Answer', description: `JSON that matches ${shortened(schema)}` }, 'json');
}

const shortened = (schema: Schema): string => escapeControls(JSON.stringify(schema)).slice(0, 2000);

const FIELD_MEMBERS: { readonly [type: string]: readonly string[] } = {
  string: ['minLength', 'maxLength'],
  integer: ['minimum', 'maximum'],
  number: ['minimum', 'maximum'],
  boolean: [],
};
const FORMATS: readonly unknown[] = ['email', 'uri', 'date', 'date-time'];

/**
 * Returns a schema as a field of a form; `undefined` if clients could not show one. What a form cannot say is left out: an
 * answer is checked against the whole schema when it comes.
 */
function fieldOf(schema: Json | undefined): Schema | undefined {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return undefined;
  const { type, title, description, format, enum: values } = schema;
  if (typeof type !== 'string' || !Object.hasOwn(FIELD_MEMBERS, type)) return undefined;
  const isChoice = values !== undefined;
  if (isChoice && !(type === 'string' && Array.isArray(values) && values.every((value) => typeof value === 'string'))) {
    return undefined;
  }
  const limits = isChoice ? [] : FIELD_MEMBERS[type]!;
  return {
    type,
    ...(typeof title === 'string' && { title: escapeControls(title) }),
    ...(typeof description === 'string' && { description: escapeControls(description) }),
    ...(isChoice && { enum: values }),
    ...(!isChoice && type === 'string' && FORMATS.includes(format) && { format }),
    ...Object.fromEntries(
      limits.filter((name) => typeof schema[name] === 'number').map((name) => [name, schema[name]!]),
    ),
  };
}

/** Returns the schema of an object whose members are all fields. */
function wholeFormOf({ type, properties, required }: Schema): Form | undefined {
  if (type !== 'object' || typeof properties !== 'object' || properties === null || Array.isArray(properties)) {
    return undefined;
  }
  const fields = Object.entries(properties).map(([name, schema]) => [name, fieldOf(schema)] as const);
  if (fields.length === 0 || fields.some(([, field]) => field === undefined)) return undefined;
  return {
    type: 'object',
    properties: Object.fromEntries(fields) as Form['properties'],
    ...(Array.isArray(required) && { required: required.filter((name) => typeof name === 'string') }),
  };
}

/**
 * Decides what the answers of a client say about the calls that wait, each once. Answers to anything else are ignored, and so
 * is a dialog that was closed: its call continues to wait. Returns the number of closed dialogs.
 *
 * The caller must have passed `checkMayAnswer`. Throws INVALID_INPUT for an answer that does not fit, before anything is
 * decided as far as that is known, and CONFLICT if something else was decided.
 */
export async function answerInputs(
  deps: Deps,
  answering: Answering,
  approvals: readonly Approval[],
  responses: { readonly [key: string]: unknown },
): Promise<number> {
  const given = approvals.filter((approval) => Object.hasOwn(responses, approvalIdOf(approval)));
  const answers = given.map((approval) => ({
    approval,
    answer: answerTo(approval, responses[approvalIdOf(approval)]),
  }));
  for (const { approval, answer } of answers) {
    if (answer !== 'closed') await answerQuestion(deps, answering, approval, answer.sent);
  }
  return answers.filter(({ answer }) => answer === 'closed').length;
}

const DECLINED = 'The person declined.';

/** Returns what a person decided: `sent` is undefined if they declined to answer a question. */
function answerTo(approval: Approval, response: unknown): { readonly sent: Sent | undefined } | 'closed' {
  const id = approvalIdOf(approval);
  const { action, content } = (response ?? {}) as { readonly action?: unknown; readonly content?: unknown };
  switch (action) {
    case 'cancel':
      return 'closed';
    case 'decline':
      return { sent: approval.kind === 'approve' ? checked(id, { decision: 'deny', reason: DECLINED }) : undefined };
    case 'accept':
      if (typeof content === 'object' && content !== null && !Array.isArray(content)) {
        return { sent: accepted(approval, id, content as Schema) };
      }
      throw refused(id, 'must have a "content" that matches the form.');
    default:
      throw refused(id, 'must have an "action": accept, decline or cancel.');
  }
}

function accepted(approval: Approval, id: string, content: Schema): Sent {
  const form = formOf(approval).content;
  if (form === 'decision') {
    const { approve, reason } = content;
    if (typeof approve !== 'boolean') throw refused(id, 'content.approve: must be true or false.');
    const why = reason === undefined || reason === '' ? {} : { reason };
    return checked(id, { decision: approve ? 'approve' : 'deny', ...why });
  }
  if (form === 'whole') return checked(id, { decision: 'answer', answer: content });
  const answer = content[ANSWER];
  if (answer === undefined) throw refused(id, 'content.answer: is required.');
  const value = form === 'json' && typeof answer === 'string' ? (parseJsonValue(answer) ?? answer) : answer;
  return checked(id, { decision: 'answer', answer: value });
}

function checked(id: string, body: object): Sent {
  const { success, data, error } = decisionBody.safeParse(body);
  if (success) return data;
  const { path, message } = error.issues[0]!;
  throw refused(id, `${path.join('.')}: ${message}.`);
}

const refused = (id: string, message: string): PlatformError =>
  new PlatformError('INVALID_INPUT', `inputResponses["${id}"]: ${message}`);
