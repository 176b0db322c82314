import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { refOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { findOwn } from '../access.ts';
import type { PublishDeps } from '../publish.ts';
import { decideGate } from './decide.ts';

/** Opens the gate of a version for an owner. Throws NOT_FOUND, and CONFLICT for a version that no gate holds. */
export async function overrideGate(
  deps: PublishDeps,
  caller: Caller,
  id: string,
  reason: string,
): Promise<AgentVersion> {
  const version = await findOwn(deps, caller, id);
  const { verdict = null } = version.gate ?? {};
  if (!(await decideGate(deps, version, { status: 'overridden', verdict, reason, decidedBy: caller.userId }))) {
    const why = version.gate === undefined ? 'has no gate' : 'has passed its gate already';
    throw new PlatformError('CONFLICT', `${refOf(version)} ${why}: there is nothing to override.`);
  }
  // Background work ends the evaluation that it waited for.
  await deps.listeners.currentVersionChanged(version);
  return findOwn(deps, caller, id);
}
