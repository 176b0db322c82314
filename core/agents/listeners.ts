import type { AgentVersion } from '#core/manifest/version.ts';

/** Callbacks of higher wings for changes of agents; `core/api/listeners.ts` connects them. Listeners must not throw. */
export interface AgentListeners {
  /**
   * Called after the agent's current version changed or was removed; may also be called without a change. Returns the
   * number
   * of services that were updated to the new version.
   */
  currentVersionChanged(
    agent: Pick<AgentVersion, 'workspaceId' | 'name'>,
  ): Promise<{ readonly servicesUpdated: number }>;
}
