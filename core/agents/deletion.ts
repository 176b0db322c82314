import { PlatformError } from '#core/base/errors.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { removeDev } from './dev/publish.ts';
import { type PublishDeps, removeVersions } from './publish.ts';
import { AgentStore } from './store.ts';

/** See `docs/interface/agents.md#deletion`. */
const FORKS_THAT_NEED_CONFIRMATION = 1;

/** Scope of a deletion: the named version if undefined, otherwise every version. */
export type DeletionMode = 'all_versions' | undefined;

/**
 * Deletes a version or every version of its agent, and returns the number of deleted versions. For a build of `dev`,
 * deletes
 * only `dev`. With every version, its channels are deleted. Throws INVALID_INPUT for an agent that has been forked unless
 * `confirmedName` is its name, and CONFLICT for a version that a channel names.
 */
export async function deleteAgent(
  deps: PublishDeps,
  version: AgentVersion,
  { mode, confirmedName }: { readonly mode: DeletionMode; readonly confirmedName: string | undefined },
): Promise<number> {
  const { name, devOf } = version;
  if (devOf !== undefined) {
    await removeDev(deps, { ...version, devOf });
    return 1;
  }
  const store = new AgentStore(deps, version.workspaceId);
  if (confirmedName !== name && needsConfirmation(await store.countForks(name))) {
    throw new PlatformError('INVALID_INPUT', `Others have forked "${name}": confirm with confirmation_name=${name}.`);
  }
  // Oldest first, so that the newest version stays current until it is deleted itself.
  const versions = mode === 'all_versions' ? await store.listVersions(name) : [version];
  await removeVersions(deps, version, versions, { withChannels: mode === 'all_versions' });
  return versions.length;
}

export const needsConfirmation = (forks: number): boolean => forks >= FORKS_THAT_NEED_CONFIRMATION;
