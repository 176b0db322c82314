import { isDeepStrictEqual } from 'node:util';
import type * as z from 'zod';
import { audited } from '#core/accounts/audit/log.ts';
import { checkKeyLimits } from '#core/accounts/keys/limits.ts';
import { membershipOf } from '#core/accounts/workspaces/store.ts';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { rowOf } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type Approval, approvalIdOf, asksPeople } from '#core/runs/approvals/approval.ts';
import { checkMayDecide, decideAsked, settle } from '#core/runs/approvals/decide.ts';
import { approvalRoutes, type decisionBody } from '#core/runs/approvals/routes.ts';
import { approvalsOfRun, findApproval } from '#core/runs/approvals/store.ts';

/** The decision of an approval that nobody answered in time. The model is told that it expired. */
const UNANSWERED = { type: 'expired', onTimeout: 'deny' } as const;

/** Who answers, and where. */
export interface Answering {
  readonly caller: Caller;
  readonly workspace: Workspace;
  readonly address: string | undefined;
}

/** What a person decided, as the API takes it. */
export type Sent = z.output<typeof decisionBody>;

/** Returns the calls of a run about which people are asked. */
export async function openQuestions(
  deps: Pick<Deps, 'runs'>,
  place: { readonly workspaceId: string; readonly runId: string },
): Promise<Approval[]> {
  return (await approvalsOfRun(deps, place)).filter((each) => each.status === 'waiting' && asksPeople(each));
}

/** Throws FORBIDDEN unless the caller may decide approvals of the workspace (`docs/interface/approvals.md#who-decides`). */
export async function checkMayAnswer(
  deps: Pick<Deps, 'main'>,
  { caller, workspace }: Pick<Answering, 'caller' | 'workspace'>,
): Promise<void> {
  if (caller.limits) checkKeyLimits(caller.limits, rowOf(approvalRoutes, 'decideApproval'), workspace.id);
  const membership = workspace.id === caller.workspace.id ? caller : await membershipOf(deps, caller, workspace.id);
  if (membership === undefined) {
    throw new PlatformError('FORBIDDEN', `Only members of the workspace "${workspace.slug}" may decide this.`);
  }
  checkMayDecide(membership);
}

/**
 * Decides about a call that waits, once, and records it in the audit log. The caller must have passed {@link checkMayAnswer}.
 * Throws INVALID_INPUT for an answer that does not fit, and CONFLICT if something else was decided.
 *
 * @param sent `undefined`: the question is left without an answer.
 */
export async function answerQuestion(
  deps: Deps,
  { caller, workspace, address }: Answering,
  approval: Approval,
  sent: Sent | undefined,
): Promise<void> {
  const { audit } = rowOf(approvalRoutes, 'decideApproval');
  const subject = { workspaceId: workspace.id, operation: 'decideApproval', audit, by: caller };
  const params = { approval_id: approvalIdOf(approval) };
  const body = sent ?? { decision: 'unanswered' };
  await audited(deps, subject, { params, body, requestUuid: deps.ids.uuid(), address }, async () => {
    const now =
      sent === undefined
        ? await leaveUnanswered(deps, approval, caller.userId)
        : await decideAsked(deps, workspace, approval, { sent, by: caller.userId });
    const edited = now.decision?.type === 'approve' && now.decision.args !== undefined;
    return { body: { run_id: now.runId, agent_name: now.agentName, tool: now.tool, edited } };
  });
}

async function leaveUnanswered(deps: Deps, approval: Approval, by: string): Promise<Approval> {
  const isFirst = approval.status === 'waiting' && (await settle(deps, approval, UNANSWERED, by));
  const now = await findApproval(deps, approval);
  if (now !== undefined && (isFirst || isDeepStrictEqual(now.decision, UNANSWERED))) return now;
  throw new PlatformError(
    'CONFLICT',
    `${approvalIdOf(approval)} is not open any more: it was ${now?.status ?? 'removed'}.`,
  );
}
