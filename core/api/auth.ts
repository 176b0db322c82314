import { hashKey, isKey } from '#core/accounts/keys/key-format.ts';
import { checkKeyLimits } from '#core/accounts/keys/limits.ts';
import { type ApiKey, checkUsable, findKey, findKeyOrToken, touchKey } from '#core/accounts/keys/store.ts';
import { isServiceKey } from '#core/accounts/service-keys/key-format.ts';
import { isFromOwnPage, sessionCookieOf } from '#core/accounts/sign-in/own-pages.ts';
import { findSession, touchSession } from '#core/accounts/sign-in/sessions.ts';
import { findMembership, type Membership } from '#core/accounts/workspaces/store.ts';
import type { AgentCaller, Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { lazy } from '#core/base/lazy.ts';
import { bearerOf } from '#core/http/bearer.ts';
import type { RequestHeaders } from '#core/http/message.ts';
import type { KeyNeeds } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import { authenticateAgent, type ServiceKeyDeps } from './agent-caller.ts';

// Loaded lazily: most callers are users and agents.
const clientAccess = lazy(() => import('#core/accounts/clients/access.ts'));
const trustAccess = lazy(() => import('#core/accounts/trusts/access.ts'));

type AuthDeps = ServiceKeyDeps & Pick<Deps, 'counters'>;

/**
 * Returns the caller of a request (`docs/interface/authentication.md`). A user acts in `workspaceId` (from the path),
 * else in the workspace of `X-Workspace-Id`, else in the user's personal workspace. An agent acts in the workspace of
 * its key. A session cookie counts only without `Authorization`, and for requests of the platform's own pages. An access
 * token counts only for rows with `clientTokens`, at the `path` that it was issued for.
 *
 * Throws UNAUTHORIZED for a key that is missing, malformed, unknown, revoked or expired, and for a service key whose
 * run has ended. Throws FORBIDDEN if the caller is not a member of the workspace, whether or not it exists; for a
 * service key on a route that does not accept agents; and for a key whose scope excludes the route.
 */
export async function authenticate(
  deps: AuthDeps,
  headers: RequestHeaders,
  workspaceId: string | undefined,
  row: KeyNeeds = { method: 'GET' },
  path = '',
): Promise<Caller> {
  const wanted = workspaceId ?? headers.get('x-workspace-id') ?? undefined;
  const authorization = headers.get('authorization');
  const token = authorization === null ? sessionCookieOf(deps.config, headers) : undefined;
  if (token !== undefined) return authenticateWithSession(deps, { headers, token }, wanted, row);
  const presented = bearerOf(authorization);
  if (presented === '') {
    throw new PlatformError(
      'UNAUTHORIZED',
      'An API key is required: send the header "Authorization: Bearer <API key>".',
    );
  }
  if (isServiceKey(presented)) {
    if (!row.agents)
      throw new PlatformError('FORBIDDEN', 'Service keys of agents are not allowed here; use the API key of a user.');
    return authenticateWithServiceKey(deps, presented, wanted);
  }
  const key = isKey(presented) ? await findKeyOrToken(deps, hashKey(presented)) : undefined;
  checkUsable(deps, key);
  if (key.client) await (await clientAccess()).checkClientToken(deps, key, row, path);
  return await callerOf(deps, key, wanted, row);
}

/**
 * Returns the user of a browser session. Throws UNAUTHORIZED if the session or its key has ended, or another site sent
 * the request.
 */
async function authenticateWithSession(
  deps: AuthDeps,
  { headers, token }: { readonly headers: RequestHeaders; readonly token: string },
  wanted: string | undefined,
  row: KeyNeeds,
): Promise<Caller> {
  const isSafe = row.method === 'GET' || headers.get('x-platform-client') === 'dashboard';
  if (!isSafe || !isFromOwnPage(deps.config, headers, ['same-origin'])) {
    throw new PlatformError('UNAUTHORIZED', 'Session cookies are accepted only from pages of the platform.', {
      hint: 'In programs, send the header "Authorization: Bearer <API key>".',
    });
  }
  const session = await findSession(deps, token);
  const key = session && (await findKey(deps, session.keyHash));
  if (key === undefined) throw new PlatformError('UNAUTHORIZED', 'The session has ended: sign in again.');
  checkUsable(deps, key);
  const [caller] = await Promise.all([callerOf(deps, key, wanted, row), touchSession(deps, session!)]);
  return caller;
}

/** Returns the user of a key. Throws FORBIDDEN like {@link authenticate}. */
async function callerOf(deps: ServiceKeyDeps, key: ApiKey, wanted: string | undefined, row: KeyNeeds): Promise<Caller> {
  const { userId, id: keyId, limits } = key;
  if (limits) checkKeyLimits(limits, row, wanted);
  if (key.trust) return (await trustAccess()).callerByTrust(deps, key);
  const workspaceId = wanted ?? limits?.workspaceId;
  if (!key.client) await touchKey(deps, key);
  const membership = await membershipIn(deps, key, workspaceId);
  if (membership === undefined) throw notAMember(workspaceId);
  return { userId, keyId, ...membership, ...(limits && { limits }) };
}

async function membershipIn(
  deps: ServiceKeyDeps,
  { userId, personalWorkspace, client }: ApiKey,
  wanted: string | undefined,
): Promise<Membership | undefined> {
  // Changes of the workspace do not reach the copies in access tokens.
  if (wanted !== undefined && (client || wanted !== personalWorkspace.id)) return findMembership(deps, userId, wanted);
  return { workspace: personalWorkspace, role: 'owner' };
}

async function authenticateWithServiceKey(
  deps: ServiceKeyDeps,
  presented: string,
  wanted: string | undefined,
): Promise<Caller> {
  const agent = await authenticateAgent(deps, presented);
  if (agent === undefined) {
    throw new PlatformError('UNAUTHORIZED', 'The service key is invalid or revoked, or its run or service has ended.');
  }
  if (wanted !== undefined && wanted !== agent.workspace.id) throw notAMember(wanted);
  return { userId: `agent:${agent.name}`, keyId: keyIdOf(agent), workspace: agent.workspace, role: 'member', agent };
}

const keyIdOf = (agent: AgentCaller): string =>
  agent.kind === 'run' ? agent.runId : agent.kind === 'service' ? agent.serviceId : agent.keyId;

const notAMember = (workspaceId = ''): PlatformError =>
  new PlatformError('FORBIDDEN', `You are not a member of a workspace with the id "${workspaceId.slice(0, 64)}".`);
