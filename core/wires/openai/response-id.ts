import type { Workspace } from '#core/base/workspace.ts';

const UUID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';
const RESPONSE = new RegExp(`^resp_(${UUID})(?:_(${UUID}))?$`);

/**
 * Returns the id of a run's response. It names the workspace of a run that belongs to another one than the caller's, as calls
 * of agents of other workspaces of a user do: a client of this protocol cannot name it.
 */
export const responseIdOf = (runId: string, owner: Workspace, caller: Workspace): string =>
  owner.id === caller.id ? `resp_${runId}` : `resp_${runId}_${owner.id}`;

/** Returns the run of a response, and the workspace that it names; `undefined` for a text that is no such id. */
export function readResponseId(id: string): { readonly runId: string; readonly workspaceId?: string } | undefined {
  const [, runId, workspaceId] = RESPONSE.exec(id) ?? [];
  return runId === undefined ? undefined : { runId, ...(workspaceId !== undefined && { workspaceId }) };
}

const CONVERSATION = new RegExp(`^conv_([0-9a-f]{32})(?:_(${UUID}))?$`);

/** Returns the id of a session as a conversation, which names its workspace in the same way. */
export const conversationIdOf = (sessionId: string, owner: Workspace, caller: Workspace): string =>
  sessionId.replace(/^ses_/, 'conv_') + (owner.id === caller.id ? '' : `_${owner.id}`);

/** Returns the session of a conversation, and the workspace that it names; `undefined` for a text that is no such id. */
export function readConversationId(
  id: string,
): { readonly sessionId: string; readonly workspaceId?: string } | undefined {
  const [, hex, workspaceId] = CONVERSATION.exec(id) ?? [];
  return hex === undefined ? undefined : { sessionId: `ses_${hex}`, ...(workspaceId !== undefined && { workspaceId }) };
}
