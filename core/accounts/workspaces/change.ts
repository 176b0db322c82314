import type { Workspace } from '#core/base/workspace.ts';
import type { Deps } from '#core/ports/deps.ts';
import { updateKeyWorkspaces } from '../keys/store.ts';
import { findUser, listMembers, updateWorkspace } from './store.ts';

/**
 * Changes a workspace, in its record and wherever a copy of it lies. `undefined` when there is none. What is added to it
 * at the same moment may keep the old state: then say it again.
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
