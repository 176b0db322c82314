import { isPlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type Approval, approvalIdOf } from '#core/runs/approvals/approval.ts';
import { decisionBody } from '#core/runs/approvals/routes.ts';
import { type Answering, answerQuestion, checkMayAnswer, openQuestions, type Sent } from '../questions.ts';
import { A2aError, refuse } from './errors.ts';
import type { Said } from './input.ts';

/** Words that decide about a call, in a message that is nothing else. */
const WORDS: { readonly [word: string]: boolean } = { approve: true, yes: true, deny: false, no: false };

/**
 * Answers all that a run asks with the message of its client (`docs/interface/a2a.md#questions`). Returns what was answered.
 *
 * Throws FORBIDDEN unless the caller may decide, InvalidParams for an answer that does not fit, before anything is decided as
 * far as that is known, and UnsupportedOperation if the run asks nothing or another was faster.
 */
export async function answerTask(
  deps: Deps,
  answering: Answering,
  runId: string,
  said: Said,
): Promise<readonly Approval[]> {
  const open = await openQuestions(deps, { workspaceId: answering.workspace.id, runId });
  if (open.length === 0) {
    throw new A2aError(
      'UnsupportedOperation',
      'The task works, and asks nothing: send a message without "taskId", which begins a task.',
    );
  }
  await checkMayAnswer(deps, answering);
  const answers = answersIn(open, said);
  const decided = open.map((approval) => ({
    approval,
    sent: decisionOf(approval, answers.get(approvalIdOf(approval))),
  }));
  try {
    for (const { approval, sent } of decided) await answerQuestion(deps, answering, approval, sent);
  } catch (error) {
    if (!isPlatformError(error)) throw error;
    if (error.code === 'CONFLICT') throw new A2aError('UnsupportedOperation', error.message);
    if (error.code === 'INVALID_INPUT') return refuse('message.parts', error.message);
    throw error;
  }
  return open;
}

/** Returns the answer to each question, by its id. */
function answersIn(open: readonly Approval[], { text, data, files }: Said): ReadonlyMap<string, Json> {
  if (files.length > 0) refuse('message.parts', 'an answer has no files.');
  if (data.length > 1) refuse('message.parts', 'an answer has at most one part "data".');
  const [value = text] = data;
  const { answers } = (value ?? {}) as { readonly answers?: { readonly [id: string]: Json } };
  if (typeof answers === 'object' && answers !== null) {
    const ids = open.map(approvalIdOf);
    const unknown = Object.keys(answers).find((id) => !ids.includes(id));
    if (unknown !== undefined) refuse('message.parts', `"${unknown.slice(0, 64)}" is not asked.`);
    const left = ids.find((id) => answers[id] === undefined);
    if (left !== undefined) refuse('message.parts', `"answers" must have one for "${left}".`);
    return new Map(Object.entries(answers));
  }
  const [only, second] = open;
  if (second !== undefined) {
    refuse('message.parts', `${open.length} things are asked: send a part "data" with {"answers": {"<id>": ...}}.`);
  }
  return new Map([[approvalIdOf(only!), value]]);
}

function decisionOf({ kind, tool }: Approval, value: Json | undefined): Sent {
  if (kind === 'answer') return checked({ decision: 'answer', answer: value });
  const word = typeof value === 'string' ? WORDS[value.trim().toLowerCase()] : value;
  const { approved, ...more } = (typeof word === 'boolean' ? { approved: word } : (word ?? {})) as {
    readonly [member: string]: Json;
  };
  if (typeof approved !== 'boolean') {
    refuse(
      'message.parts',
      `the task asks whether it may call ${tool}: answer "approve" or "deny", or a part "data" with {"approved": true}.`,
    );
  }
  return checked({ ...more, decision: approved ? 'approve' : 'deny' });
}

function checked(body: object): Sent {
  const { success, data, error } = decisionBody.safeParse(body);
  if (success) return data;
  const { path, message } = error.issues[0]!;
  return refuse(['message.parts.data', ...path].join('.'), message);
}
