import { PlatformError } from '#core/base/errors.ts';
import { MAX_WAIT_SECONDS } from '#core/base/time-limits.ts';
import { readCursor, writeCursor } from '#core/http/cursor.ts';
import { readPayload } from '#core/http/payload.ts';
import type { Handlers } from '#core/http/route.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type Approval, type ApprovalKind, approvalIdOf, partsOf } from './approval.ts';
import { checkAsksPeople, checkMayDecide, type DecideDeps, decideAsked, MAX_DECIDED_BYTES } from './decide.ts';
import { createLink, LINK_PATH } from './links.ts';
import { receiveEvent } from './receive-event.ts';
import type { approvalRoutes } from './routes.ts';
import { approvalsOfRun, findApproval, listApprovals, matches } from './store.ts';

type ApprovalHandlers = Handlers<typeof approvalRoutes>;

export function approvalHandlers(deps: DecideDeps & Pick<Deps, 'ids' | 'main'>): ApprovalHandlers {
  /** Throws NOT_FOUND. */
  async function find(workspaceId: string, id: string): Promise<Approval> {
    const parts = partsOf(id);
    const found = parts && (await findApproval(deps, { workspaceId, ...parts }));
    if (found !== undefined) return found;
    throw new PlatformError('NOT_FOUND', `There is no approval "${id.slice(0, 64)}" in this workspace.`, {
      hint: 'GET /workspaces/{workspace_id}/approvals lists them with their ids.',
    });
  }

  return {
    async listApprovals({ caller, query }) {
      const { status, kinds: wanted, agent_name: agentName, run_id: runId, limit, cursor } = query;
      const { id: workspaceId } = caller.workspace;
      const filter = { status, agentName, kinds: wanted?.split(',') as ApprovalKind[] | undefined };
      if (runId !== undefined) {
        const found = (await approvalsOfRun(deps, { workspaceId, runId })).filter((each) => matches(each, filter));
        return { status: 200, body: { approvals: found.reverse().slice(0, limit).map(viewOf), next_cursor: null } };
      }
      const listing = ['approvals', workspaceId, status ?? null, wanted ?? null, agentName ?? null];
      const after =
        cursor === undefined
          ? undefined
          : readCursor(cursor, listing, ([place]) => (typeof place === 'string' ? place : undefined));
      const page = await listApprovals(deps, workspaceId, filter, { limit, after });
      const next_cursor = page.next === undefined ? null : writeCursor(listing, [page.next]);
      return { status: 200, body: { approvals: page.approvals.map(viewOf), next_cursor } };
    },

    async getApproval({ caller, params }) {
      return { status: 200, body: viewOf(await find(caller.workspace.id, params.approval_id)) };
    },

    async createApprovalLink({ caller, params, body }) {
      checkMayDecide(caller);
      const approval = await find(caller.workspace.id, params.approval_id);
      checkAsksPeople(approval);
      const { token, expiresAt } = await createLink(deps, approval, body.expires_in_seconds ?? MAX_WAIT_SECONDS);
      const { runId, agentName, tool } = approval;
      return {
        status: 201,
        body: {
          approval_id: approvalIdOf(approval),
          ...{ run_id: runId, agent_name: agentName, tool },
          url: `${deps.config.baseUrl ?? ''}${LINK_PATH}/${token}`,
          expires_at: expiresAt,
        },
        headers: { 'cache-control': 'no-store' },
      };
    },

    async decideApproval({ caller, params, body }) {
      checkMayDecide(caller);
      const approval = await find(caller.workspace.id, params.approval_id);
      const decided = await decideAsked(deps, caller.workspace, approval, { sent: body, by: caller.userId });
      return { status: 200, body: viewOf(decided) };
    },

    async receiveEvent({ params, request, responseHeaders }) {
      responseHeaders['cache-control'] = 'no-store';
      const payload = (await readPayload(request, { bytes: MAX_DECIDED_BYTES })) ?? null;
      const { waiting } = await receiveEvent(deps, params.event, payload);
      return { status: 200, body: { received: true, waiting } };
    },
  };
}

const viewOf = (approval: Approval) => {
  const { decision } = approval;
  return {
    id: approvalIdOf(approval),
    run_id: approval.runId,
    agent_name: approval.agentName,
    agent_version: approval.agentVersion,
    tenant_id: approval.tenantId,
    kind: approval.kind,
    status: approval.status,
    tool: approval.tool,
    arguments: approval.args,
    question: approval.question ?? null,
    options: approval.options === undefined ? null : [...approval.options],
    schema: approval.schema ?? null,
    asked_at: approval.askedAt,
    expires_at: isoTime(approval.expiresAt),
    on_timeout: approval.onTimeout,
    edited: decision?.type === 'approve' && decision.args !== undefined,
    changed_arguments: decision?.type === 'approve' ? (decision.args ?? null) : null,
    answer: decision?.type === 'answer' ? decision.answer : null,
    reason: decision !== null && 'reason' in decision ? (decision.reason ?? null) : null,
    for_run: decision?.type === 'approve' && decision.forRun === true,
    decided_by: approval.decidedBy,
    decided_at: approval.decidedAt,
  };
};
