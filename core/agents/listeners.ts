import type { AgentVersion } from '#core/manifest/version.ts';

/** What higher wings do when agents change; `core/api/listeners.ts` connects them. Listeners must not throw. */
export interface AgentListeners {
  /**
   * Called after a change of the agent's current version: another one, or none. May be called without a change. Returns
   * how many services moved to it.
   */
  currentVersionChanged(
    agent: Pick<AgentVersion, 'workspaceId' | 'name'>,
  ): Promise<{ readonly servicesUpdated: number }>;
}
