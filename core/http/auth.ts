import type { Deps } from '../deps.ts';
import { PlatformError } from '../errors.ts';
import { hashKey, isKey } from '../keys/key-format.ts';
import { findKey, touchKey } from '../keys/store.ts';
import { findMembership, type Role, type Workspace } from '../workspaces/store.ts';

/** An authenticated user, acting in one workspace that he is a member of. */
export interface Caller {
  readonly userId: string;
  readonly keyId: string;
  readonly workspace: Workspace;
  readonly role: Role;
}

/**
 * Who sends this request (`spec.md` *Authentication*). Acts in `workspaceId` (from the path), else in the one that
 * `X-Workspace-Id` names, else in the user's personal workspace.
 *
 * Throws UNAUTHORIZED for a missing, malformed, unknown or revoked key; FORBIDDEN for a workspace that the user is no
 * member of, whether or not it exists.
 */
export async function authenticate(
  deps: Pick<Deps, 'main' | 'clock'>,
  headers: Headers,
  workspaceId: string | undefined,
): Promise<Caller> {
  const presented = /^Bearer +(\S+)$/i.exec(headers.get('authorization') ?? '')?.[1];
  if (presented === undefined) {
    throw new PlatformError(
      'UNAUTHORIZED',
      'An API key is required: send the header "Authorization: Bearer <API key>".',
    );
  }
  const key = isKey(presented) ? await findKey(deps, hashKey(presented)) : undefined;
  if (key === undefined) throw new PlatformError('UNAUTHORIZED', 'The API key is not valid, or it was revoked.');

  const wanted = workspaceId ?? headers.get('x-workspace-id') ?? key.personalWorkspaceId;
  const [membership] = await Promise.all([findMembership(deps, key.userId, wanted), touchKey(deps, key)]);
  if (membership === undefined) {
    throw new PlatformError('FORBIDDEN', `You are not a member of a workspace with the id "${wanted.slice(0, 64)}".`);
  }
  return { userId: key.userId, keyId: key.id, ...membership };
}
