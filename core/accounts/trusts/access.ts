import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { ApiKey } from '../keys/store.ts';
import { findWorkspace } from '../workspaces/store.ts';
import { findTrust, hasEnded } from './store.ts';

/**
 * Returns the caller with a key of a trust. Publishing is for owners, and the scope of the key leaves nothing else to it.
 * Throws UNAUTHORIZED if the trust was deleted or has expired.
 */
export async function callerByTrust(deps: Pick<Deps, 'main' | 'clock'>, key: ApiKey): Promise<Caller> {
  const { userId, id: keyId, limits = {}, trust } = key;
  const workspaceId = limits.workspaceId!;
  const [found, workspace] = await Promise.all([
    findTrust(deps, workspaceId, trust!.id),
    findWorkspace(deps, workspaceId),
  ]);
  if (found === undefined || workspace === undefined || hasEnded(found, deps.clock.now())) {
    throw new PlatformError('UNAUTHORIZED', 'The trust that this API key was given by was deleted or has expired.');
  }
  return { userId, keyId, workspace, role: 'owner', limits, trust: trust! };
}
