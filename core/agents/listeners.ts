import type { AgentVersion } from './version.ts';

/** What higher wings do when agents change; `core/api/listeners.ts` connects them. None of them throws. */
export interface AgentListeners {
  /** Another version of this agent has become current, or none is left. */
  currentVersionChanged(agent: Pick<AgentVersion, 'workspaceId' | 'name'>): Promise<void>;
}
