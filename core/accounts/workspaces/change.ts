import type { Workspace } from '#core/base/workspace.ts';
import type { Deps } from '#core/ports/deps.ts';
import { updateKeyWorkspaces } from '../keys/store.ts';
import { findUser, listMembers, updateWorkspace } from './store.ts';

/**
 * Changes a workspace: its record, and the copies of it in memberships and keys. Returns `undefined` if the workspace
 * does not exist. A member or key that is added at the same time may keep the old state: then repeat the change.
 */
export async function changeWorkspace(
  deps: Pick<Deps, 'main'>,
  id: string,
  changes: Parameters<typeof updateWorkspace>[2],
): Promise<Workspace | undefined> {
  const workspace = await updateWorkspace(deps, id, changes);
  if (workspace === undefined) return undefined;
  for (const userId of await listMembers(deps, id)) {
    const user = await findUser(deps, userId);
    if (user?.personalWorkspaceId === id) await updateKeyWorkspaces(deps, userId, workspace);
  }
  return workspace;
}
