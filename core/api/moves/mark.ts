import { changeWorkspace } from '#core/accounts/workspaces/change.ts';
import { workspaceKey } from '#core/accounts/workspaces/store.ts';
import type { Workspace, WorkspaceMove } from '#core/base/workspace.ts';
import type { Deps } from '#core/ports/deps.ts';
import { exists } from '#core/ports/table.ts';

/** Records how far a workspace is on its way, in its record and in the copies of it. `undefined`: it stays. */
export async function markMove(
  deps: Pick<Deps, 'main'>,
  id: string,
  move: WorkspaceMove | undefined,
): Promise<Workspace | undefined> {
  const changes = move === undefined ? { remove: ['move'] } : { set: { move: { ...move } } };
  const marked = await deps.main.update(workspaceKey(id), changes, exists());
  return marked.ok ? changeWorkspace(deps, id, {}) : undefined;
}
