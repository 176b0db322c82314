import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type Approval, approvalIdOf, asksPeople, partsOf } from '#core/runs/approvals/approval.ts';
import { decisionBody } from '#core/runs/approvals/routes.ts';
import { approvalsOfRun } from '#core/runs/approvals/store.ts';
import { liveEventsOf } from '#core/runs/live-events.ts';
import { type Answering, answerQuestion, type Sent } from '../questions.ts';
import type { RunAgentInput } from './input.ts';

type Entry = NonNullable<RunAgentInput['resume']>[number];

const DISMISSED = 'The person closed the question without an answer.';

/** The answers to all interrupts of one run. */
export interface Resumption {
  readonly runId: string;
  readonly answers: readonly { readonly approval: Approval; readonly entry: Entry }[];
}

/**
 * Finds what the entries answer. Throws NOT_FOUND for an interrupt that is not of one run of the thread, and INVALID_INPUT if
 * one is left open, or answered twice.
 *
 * @param runIds The newest runs of the thread.
 */
export async function resumptionOf(
  deps: Pick<Deps, 'runs'>,
  workspaceId: string,
  entries: readonly Entry[],
  runIds: readonly string[],
): Promise<Resumption> {
  const ids = entries.map(({ interruptId }) => interruptId);
  const unknown = (id: string): PlatformError =>
    new PlatformError(
      'NOT_FOUND',
      `No run of this thread has the interrupt "${id.slice(0, 64)}", or it is an old one.`,
    );
  const runId = runIds.find((one) => one === partsOf(ids[0]!)?.runId);
  if (runId === undefined) throw unknown(ids[0]!);
  const all = await approvalsOfRun(deps, { workspaceId, runId });
  const twice = ids.find((id, index) => ids.indexOf(id) !== index);
  if (twice !== undefined) throw new PlatformError('INVALID_INPUT', `body.resume: "${twice}" is answered twice.`);
  const left = all.filter((each) => each.status === 'waiting' && asksPeople(each) && !ids.includes(approvalIdOf(each)));
  if (left.length > 0) {
    const open = left.map((each) => `"${approvalIdOf(each)}"`).join(', ');
    throw new PlatformError('INVALID_INPUT', `body.resume: must answer all open interrupts, but not ${open}.`);
  }
  const answers = entries.map((entry) => {
    const approval = all.find((each) => approvalIdOf(each) === entry.interruptId && asksPeople(each));
    if (approval === undefined) throw unknown(entry.interruptId);
    return { approval, entry };
  });
  return { runId, answers };
}

/** Returns the number of the run's event that asked: what comes after it is the answer to the resumption. */
export async function askedAt(deps: Pick<Deps, 'runs'>, workspaceId: string, resumption: Resumption): Promise<number> {
  const ids = resumption.answers.map(({ entry }) => entry.interruptId);
  let last = 0;
  for await (const { number, data } of liveEventsOf(deps, { workspaceId, runId: resumption.runId }, 0)) {
    if (data.type !== 'waiting') continue;
    const asked = data.approvals as unknown as readonly { readonly id: string }[];
    if (asked.some(({ id }) => ids.includes(id))) last = number;
  }
  return last;
}

/**
 * Decides what the entries say, each once, and records each in the audit log. Throws INVALID_INPUT for an answer that does
 * not fit, before anything is decided as far as that is known, and CONFLICT if something else was decided.
 */
export async function answerAll(deps: Deps, answering: Answering, { answers }: Resumption): Promise<void> {
  const decided = answers.map(({ approval, entry }, index) => ({ approval, sent: decisionOf(approval, entry, index) }));
  for (const { approval, sent } of decided) await answerQuestion(deps, answering, approval, sent);
}

/** Returns `undefined` for a question that is left without an answer. */
function decisionOf({ kind }: Approval, { status, payload }: Entry, index: number): Sent | undefined {
  if (kind === 'answer') {
    return status === 'cancelled' ? undefined : checked({ decision: 'answer', answer: payload }, index);
  }
  if (status === 'cancelled') return checked({ decision: 'deny', reason: DISMISSED }, index);
  const { approved, ...more } = (typeof payload === 'boolean' ? { approved: payload } : (payload ?? {})) as {
    readonly [member: string]: Json;
  };
  if (typeof approved !== 'boolean') {
    throw new PlatformError(
      'INVALID_INPUT',
      `body.resume.${index}.payload: must be true, false, or an object with "approved".`,
    );
  }
  return checked({ ...more, decision: approved ? 'approve' : 'deny' }, index);
}

function checked(body: object, index: number): Sent {
  const { success, data, error } = decisionBody.safeParse(body);
  if (success) return data;
  const { path, message } = error.issues[0]!;
  throw new PlatformError('INVALID_INPUT', `${['body.resume', index, 'payload', ...path].join('.')}: ${message}.`);
}
