import type { Deps } from '#core/ports/deps.ts';
import type { TellWorkspace } from '#core/runs/notice.ts';

/** Returns the function by which the work of lower wings sends messages. */
export const tellWorkspace =
  (deps: Pick<Deps, 'main' | 'clock' | 'ids'>): TellWorkspace =>
  async (workspaceId, { id, ...notice }) => {
    // Loaded lazily: there is seldom something to tell, and smaller functions start faster.
    const { MessageStore } = await import('#core/collaboration/messages/store.ts');
    await new MessageStore(deps, workspaceId).ensure(id, { ...notice, level: 'warning', metadata: null });
  };
