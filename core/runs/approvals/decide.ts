import { isDeepStrictEqual } from 'node:util';
import type * as z from 'zod';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { lazy } from '#core/base/lazy.ts';
import { hasEnded } from '#core/base/run-kinds.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { RunStore } from '../store.ts';
import { type Approval, approvalIdOf, type Decision } from './approval.ts';
import type { decisionBody } from './routes.ts';
import { decide, findApproval } from './store.ts';

/** Loaded lazily: few requests decide, and smaller functions start faster. */
const checks = lazy(() => import('#core/manifest/worker-pool/checks.ts'));

export type DecideDeps = Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config' | 'log' | 'wakeRun'>;
type Sent = z.output<typeof decisionBody>;

/**
 * Decides about a call that waits, once, and wakes its run. The same decision again returns the first one.
 *
 * Throws INVALID_INPUT for members that do not go together, and for arguments or an answer that do not match their schema;
 * CONFLICT if something else was decided, if the time is over, or if the run has ended.
 *
 * @param by Id of the user, or `link`.
 */
export async function decideAsked(
  deps: DecideDeps,
  workspace: Workspace,
  approval: Approval,
  { sent, by }: { readonly sent: Sent; readonly by: string },
): Promise<Approval> {
  checkMembers(approval, sent);
  if (approval.status === 'waiting') {
    await checkIsOpen(deps, approval);
    await checkValue(deps, workspace, approval, sent);
  }
  const decision = decisionOf(sent);
  const isFirst = approval.status === 'waiting' && (await decide(deps, approval, decision, by));
  const now = await findApproval(deps, approval);
  if (now === undefined || (!isFirst && !isSame(now.decision, decision))) throw conflict(now ?? approval);
  if (isFirst) {
    const { workspaceId, runId } = approval;
    deps.log.info('call decided', { run_id: runId, approval_id: approvalIdOf(approval), decision: sent.decision });
    await deps.wakeRun?.({ workspaceId, runId });
  }
  return now;
}

function checkMembers({ kind }: Approval, sent: Sent): void {
  const wrong = (message: string): never => {
    throw new PlatformError('INVALID_INPUT', message);
  };
  const isAnswer = sent.decision === 'answer';
  if (kind === 'time' || kind === 'event') {
    wrong('body.decision: nobody is asked here: the run waits for a time. Cancel the run, or let it wait.');
  }
  if (isAnswer !== (kind === 'answer')) {
    wrong(
      `body.decision: must be ${kind === 'answer' ? '"answer"' : '"approve" or "deny"'} here, but is "${sent.decision}".`,
    );
  }
  if (isAnswer && sent.answer === undefined) wrong('body.answer: is required with the decision "answer".');
  if (!isAnswer && sent.answer !== undefined) wrong('body.answer: only goes with the decision "answer".');
  if (sent.decision !== 'approve' && sent.arguments !== undefined) {
    wrong('body.arguments: only go with the decision "approve".');
  }
  if (sent.decision !== 'approve' && sent.for === 'run') wrong('body.for: only goes with the decision "approve".');
  if (isAnswer && sent.reason !== undefined) wrong('body.reason: only goes with "approve" and "deny".');
}

async function checkIsOpen(deps: DecideDeps, approval: Approval): Promise<void> {
  if (approval.expiresAt <= deps.clock.now()) throw conflict({ ...approval, status: 'expired' });
  const run = await new RunStore(deps, approval.workspaceId).find(approval.runId);
  if (run === undefined || hasEnded(run.status)) throw conflict({ ...approval, status: 'cancelled' });
}

async function checkValue(
  deps: DecideDeps,
  workspace: Workspace,
  { schema, args }: Approval,
  { arguments: changed, answer }: Sent,
): Promise<void> {
  const [field, value] = answer === undefined ? ['arguments', changed] : ['answer', answer];
  if (value === undefined) return;
  const mask = maskedIn(value as Json, args);
  if (mask !== undefined) {
    throw new PlatformError(
      'INVALID_INPUT',
      `body.${field}: ${mask} stands for a secret, which only the agent has. Leave texts that contain it as they are.`,
    );
  }
  if (schema === undefined) {
    if (field === 'answer' && typeof value !== 'string')
      throw new PlatformError('INVALID_INPUT', 'body.answer: must be a text.');
    return;
  }
  const { validate } = await checks();
  const [problem] = await validate(deps, workspace, schema, value);
  if (problem === undefined) return;
  const place = problem.field === '' ? '' : problem.field.startsWith('[') ? problem.field : `.${problem.field}`;
  throw new PlatformError('INVALID_INPUT', `body.${field}${place}: ${problem.message}.`);
}

/** Returns a mask of a secret in a text of `value` that is not in `shown` at the same place; `undefined` if there is none. */
function maskedIn(value: Json, shown: Json | undefined): string | undefined {
  if (isDeepStrictEqual(value, shown)) return undefined;
  if (typeof value === 'string') return /\[secret [A-Z][A-Z0-9_]*\]/.exec(value)?.[0];
  if (typeof value !== 'object' || value === null) return undefined;
  const before = typeof shown === 'object' && shown !== null ? (shown as { [member: string]: Json }) : {};
  for (const [name, member] of Object.entries(value)) {
    const found = maskedIn(member, Object.hasOwn(before, name) ? before[name] : undefined);
    if (found !== undefined) return found;
  }
  return undefined;
}

function decisionOf({ decision, arguments: args, answer, reason, for: scope }: Sent): Decision {
  if (decision === 'answer') return { type: 'answer', answer: answer as Json };
  const why = reason === undefined ? {} : { reason };
  if (decision === 'deny') return { type: 'deny', ...why };
  const changed = args === undefined ? {} : { args: args as Json };
  return { type: 'approve', ...changed, ...(scope === 'run' && { forRun: true as const }), ...why };
}

const isSame = (stored: Decision | null, decision: Decision): boolean =>
  isDeepStrictEqual(stored, JSON.parse(JSON.stringify(decision)));

function conflict(approval: Approval): PlatformError {
  const { status, decidedBy, decidedAt, expiresAt, runId } = approval;
  const id = approvalIdOf(approval);
  switch (status) {
    case 'expired':
      return new PlatformError('CONFLICT', `${id} waited until ${isoTime(expiresAt)}: it is too late to decide.`);
    case 'cancelled':
    case 'waiting':
      return new PlatformError('CONFLICT', `The run ${runId} has ended, so nothing can be decided about ${id}.`);
    default:
      return new PlatformError('CONFLICT', `${id} was ${status} by ${decidedBy} at ${decidedAt}. A decision is final.`);
  }
}
