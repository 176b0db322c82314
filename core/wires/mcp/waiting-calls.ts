import { hasCode, isPlatformError } from '#core/base/errors.ts';
import { HELD_CALL_MS } from '#core/base/time-limits.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { ProgressEvent } from '#core/execution/engines/progress.ts';
import type { Deps } from '#core/ports/deps.ts';
import { MCP_CODES, type McpContext, McpError, type McpObject } from '#core/ports/mcp-endpoint.ts';
import { type Approval, asksPeople } from '#core/runs/approvals/approval.ts';
import { approvalsOfRun } from '#core/runs/approvals/store.ts';
import { liveEventsOf } from '#core/runs/live-events.ts';
import { checkMayAnswer } from '../questions.ts';
import { type Followed, follow } from './follow.ts';
import { answerInputs, inputRequestsOf } from './input-requests.ts';
import { requestStateOf, runOfState, type StateOwner } from './request-state.ts';
import type { Scene } from './scene.ts';

/*
 * Calls whose runs wait for people (`docs/interface/mcp.md#questions`): the client is asked, and sends the same call again with
 * the answers.
 */

/** A call of a tool, as its client made it. */
export interface ClientCall {
  readonly tool: string;
  readonly args: McpObject;
  /** The workspace that owns the run. */
  readonly workspace: Workspace;
}

const ownerOf = ({ incoming }: Scene, { tool, args, workspace }: ClientCall): StateOwner => ({
  caller: incoming.caller,
  workspaceId: workspace.id,
  tenantId: incoming.headers['x-platform-tenant'],
  tool,
  args,
});

/** Whether a client can show forms, as it says with this request. */
function takesForms({ clientCapabilities, isLegacy }: McpContext): boolean {
  const { elicitation } = clientCapabilities;
  if (isLegacy || typeof elicitation !== 'object' || elicitation === null) return false;
  return 'form' in elicitation || !('url' in elicitation);
}

/** Returns the result that asks a client; `undefined` if it cannot show forms, or its caller may not decide. */
export async function askClient(
  deps: Deps,
  scene: Scene,
  made: ClientCall,
  context: McpContext,
  { runId, open }: { readonly runId: string; readonly open: readonly Approval[] },
): Promise<McpObject | undefined> {
  if (!takesForms(context)) return undefined;
  try {
    await checkMayAnswer(deps, { caller: scene.incoming.caller, workspace: made.workspace });
  } catch (error) {
    if (hasCode(error, 'FORBIDDEN')) return undefined;
    throw error;
  }
  const requestState = await requestStateOf(deps, ownerOf(scene, made), runId);
  return { resultType: 'input_required', inputRequests: inputRequestsOf(open), requestState };
}

/** How a call continued. */
export interface ContinuedCall {
  readonly runId: string;
  /** `closed`: its person closed the form without an answer. */
  readonly followed: Followed | { readonly is: 'closed' };
}

/**
 * Decides what the answers of a client say, and waits for what follows. Throws {@link McpError} for a state that is not of this
 * call, and for answers that do not fit; FORBIDDEN if the caller may not decide.
 */
export async function continueCall(
  deps: Deps,
  scene: Scene,
  made: ClientCall,
  context: McpContext,
  emit: ((event: ProgressEvent) => void) | undefined,
): Promise<ContinuedCall> {
  const { caller, address, receivedAt } = scene.incoming;
  const runId = await runOfState(deps, ownerOf(scene, made), context.requestState!);
  if (runId === undefined) {
    throw new McpError(MCP_CODES.invalidParams, 'Invalid or expired requestState', { reason: 'invalid_request_state' });
  }
  const answering = { caller, workspace: made.workspace, address };
  await checkMayAnswer(deps, answering);
  const place = { workspaceId: made.workspace.id, runId };
  const after = emit === undefined ? 0 : await positionOf(deps, place);
  const asked = (await approvalsOfRun(deps, place)).filter(asksPeople);
  const closed = await refusing(() => answerInputs(deps, answering, asked, context.inputResponses ?? {}));
  if (closed > 0) return { runId, followed: { is: 'closed' } };
  const until = receivedAt + HELD_CALL_MS;
  return {
    runId,
    followed: await follow(deps, place, {
      until,
      signal: context.signal,
      callerWorkspaceId: caller.workspace.id,
      emit,
      after,
    }),
  };
}

/** Returns the number of the run's last event: its client knows what happened before. */
async function positionOf(deps: Pick<Deps, 'runs'>, place: { readonly workspaceId: string; readonly runId: string }) {
  let last = 0;
  for await (const { number } of liveEventsOf(deps, place, 0)) last = number;
  return last;
}

/** Makes errors about answers errors of the protocol. */
export async function refusing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!isPlatformError(error) || !['INVALID_INPUT', 'CONFLICT'].includes(error.code)) throw error;
    throw new McpError(MCP_CODES.invalidParams, error.message);
  }
}
