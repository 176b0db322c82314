import { hashKey, isKey } from '#core/accounts/keys/key-format.ts';
import { type ApiKey, findKey, touchKey } from '#core/accounts/keys/store.ts';
import { isServiceKey } from '#core/accounts/service-keys/key-format.ts';
import { findMembership, type Membership } from '#core/accounts/workspaces/store.ts';
import type { AgentCaller, Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { bearerOf } from '#core/http/bearer.ts';
import type { RequestHeaders } from '#core/http/message.ts';
import { authenticateAgent, type ServiceKeyDeps } from './agent-caller.ts';

/**
 * The caller of a request (`docs/interface/authentication.md`). A user acts in `workspaceId` (from the path), else in
 * the workspace of `X-Workspace-Id`, else in the user's personal workspace. An agent acts in the workspace of its key.
 *
 * Throws UNAUTHORIZED for a missing, malformed, unknown or revoked key, and for a service key whose run has ended.
 * Throws FORBIDDEN if the caller is not a member of the workspace, whether or not it exists, and for a service key on a
 * route that does not accept agents.
 */
export async function authenticate(
  deps: ServiceKeyDeps,
  headers: RequestHeaders,
  workspaceId: string | undefined,
  { agents = false }: { readonly agents?: boolean } = {},
): Promise<Caller> {
  const presented = bearerOf(headers.get('authorization'));
  if (presented === '') {
    throw new PlatformError(
      'UNAUTHORIZED',
      'An API key is required: send the header "Authorization: Bearer <API key>".',
    );
  }
  const wanted = workspaceId ?? headers.get('x-workspace-id') ?? undefined;
  if (isServiceKey(presented)) {
    if (!agents)
      throw new PlatformError('FORBIDDEN', 'Service keys of agents cannot do this; use the API key of a user.');
    return authenticateWithServiceKey(deps, presented, wanted);
  }
  const key = isKey(presented) ? await findKey(deps, hashKey(presented)) : undefined;
  if (key === undefined) throw new PlatformError('UNAUTHORIZED', 'The API key is not valid, or it was revoked.');
  const [membership] = await Promise.all([membershipOf(deps, key, wanted), touchKey(deps, key)]);
  if (membership === undefined) throw notAMember(wanted);
  return { userId: key.userId, keyId: key.id, ...membership };
}

async function membershipOf(
  deps: ServiceKeyDeps,
  { userId, personalWorkspace }: ApiKey,
  wanted: string | undefined,
): Promise<Membership | undefined> {
  if (wanted !== undefined && wanted !== personalWorkspace.id) return findMembership(deps, userId, wanted);
  return { workspace: personalWorkspace, role: 'owner' };
}

async function authenticateWithServiceKey(
  deps: ServiceKeyDeps,
  presented: string,
  wanted: string | undefined,
): Promise<Caller> {
  const agent = await authenticateAgent(deps, presented);
  if (agent === undefined) {
    throw new PlatformError(
      'UNAUTHORIZED',
      'The service key is not valid, it was revoked, or its run or service has ended.',
    );
  }
  if (wanted !== undefined && wanted !== agent.workspace.id) throw notAMember(wanted);
  return { userId: `agent:${agent.name}`, keyId: keyIdOf(agent), workspace: agent.workspace, role: 'member', agent };
}

const keyIdOf = (agent: AgentCaller): string =>
  agent.kind === 'run' ? agent.runId : agent.kind === 'service' ? agent.serviceId : agent.keyId;

const notAMember = (workspaceId = ''): PlatformError =>
  new PlatformError('FORBIDDEN', `You are not a member of a workspace with the id "${workspaceId.slice(0, 64)}".`);
