import { membershipOf } from '#core/accounts/workspaces/store.ts';
import type { Caller } from '#core/base/caller.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { openSession } from '#core/execution/sessions/join.ts';
import { readJson } from '#core/http/body.ts';
import type { HttpRequest } from '#core/http/message.ts';
import type { Deps } from '#core/ports/deps.ts';
import { eraseSession } from '#core/runs/sessions/erase.ts';
import { type FoundSession, SessionStore } from '#core/runs/sessions/store.ts';
import { refuse } from './errors.ts';
import { findModel } from './models.ts';
import { conversationIdOf, readConversationId } from './response-id.ts';
import { readMetadata, unknownConversation } from './state.ts';
import { tenantOf } from './tenant.ts';

type ConversationDeps = Pick<
  Deps,
  'main' | 'runs' | 'counters' | 'blobs' | 'clock' | 'ids' | 'config' | 'runSignals' | 'wakeRun'
>;

interface Asked {
  readonly caller: Caller;
  readonly request: HttpRequest;
}
type Naming = Asked & { readonly params: { readonly conversation_id: string } };

const MAX_BODY_BYTES = 64 * 1024;

/**
 * Opens a session as a conversation. OpenAI's have no model, and sessions belong to an agent: the metadata names it. Throws
 * INVALID_INPUT, NOT_FOUND, FORBIDDEN, UNPROCESSABLE.
 */
export async function createConversation(deps: ConversationDeps, { caller, request }: Asked) {
  const body = ((await readJson(request, { bytes: MAX_BODY_BYTES })) ?? {}) as { readonly [member: string]: never };
  const metadata = readMetadata(body.metadata);
  const { items } = body as { readonly items?: readonly unknown[] | null };
  if (items != null && items.length > 0)
    refuse('items', 'must be empty: what is said in a conversation are its responses.');
  const model = metadata.agent;
  if (model === undefined)
    refuse('metadata.agent', 'must be the name of the agent of the conversation, as "org/agent".');
  const isNamed = request.headers.has('x-workspace-id');
  const { agent, workspace } = await findModel(deps, { caller, isNamed }, model as string);
  const tenantId = tenantOf(request.headers);
  const { id } = await openSession(deps, { agent, workspace, tenantId }, { metadata });
  return conversationView({ id, createdAt: deps.clock.now(), metadata }, workspace, caller);
}

const conversationView = (
  { id, createdAt, metadata }: Pick<FoundSession['session'], 'id' | 'createdAt' | 'metadata'>,
  workspace: Workspace,
  caller: Caller,
) => ({
  id: conversationIdOf(id, workspace, caller.workspace),
  object: 'conversation',
  created_at: Math.floor(createdAt / 1000),
  metadata,
});

export async function shownConversation(deps: ConversationDeps, naming: Naming) {
  const { found, workspace } = await findConversation(deps, naming);
  return conversationView(found.session, workspace, naming.caller);
}

/** Erases a session. Throws NOT_FOUND. */
export async function deleteConversation(deps: ConversationDeps, naming: Naming) {
  const { found, workspace } = await findConversation(deps, naming);
  await eraseSession(deps, workspace.id, found.session.id);
  return { id: naming.params.conversation_id, object: 'conversation.deleted', deleted: true };
}

/** A request without a tenant sees those of all tenants, as with sessions. */
async function findConversation(deps: ConversationDeps, { caller, request, params }: Naming) {
  const id = params.conversation_id;
  const named = readConversationId(id);
  const workspace =
    named?.workspaceId === undefined
      ? caller.workspace
      : (await membershipOf(deps, caller, named.workspaceId))?.workspace;
  const found = named && workspace && (await new SessionStore(deps, workspace.id).find(named.sessionId, 1));
  const tenantId = tenantOf(request.headers);
  if (found === undefined || (tenantId !== undefined && found.session.tenantId !== tenantId)) {
    throw unknownConversation(id);
  }
  return { found, workspace: workspace! };
}
