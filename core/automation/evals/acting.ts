import { TRUST_USER } from '#core/accounts/keys/store.ts';
import { findTrust } from '#core/accounts/trusts/store.ts';
import { findMembership, findWorkspace } from '#core/accounts/workspaces/store.ts';
import type { Caller } from '#core/base/caller.ts';
import type { Deps } from '#core/ports/deps.ts';

/**
 * Returns whom the runs of an evaluation act for: the user who started it, or the trust whose job published the version. A trust has no rights
 * beyond the workspace, and no connections. Returns a sentence if the user is no member any more, or the trust was deleted.
 */
export async function actingFor(
  deps: Pick<Deps, 'main'>,
  workspaceId: string,
  { userId, isBound, keyId }: { readonly userId: string; readonly isBound: boolean; readonly keyId: string },
): Promise<Caller | { readonly problem: string }> {
  if (!userId.startsWith(TRUST_USER)) {
    const membership = await findMembership(deps, userId, workspaceId);
    if (membership === undefined) return { problem: 'The user who started it is no longer a member of the workspace.' };
    return { ...membership, userId, keyId, ...(isBound && { limits: { workspaceId } }) };
  }
  const [trust, workspace] = await Promise.all([
    findTrust(deps, workspaceId, userId.slice(TRUST_USER.length)),
    findWorkspace(deps, workspaceId),
  ]);
  if (trust === undefined || workspace === undefined) return { problem: 'The trust whose job started it was deleted.' };
  const { id, issuer } = trust;
  return { userId, keyId, workspace, role: 'member', limits: { workspaceId }, trust: { id, issuer, claims: {} } };
}
