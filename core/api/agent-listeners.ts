import type { AgentListeners } from '#core/agents/listeners.ts';
import type { Deps } from '#core/ports/deps.ts';

/** Connects changes of agents with schedules and services that follow them. */
export const agentListeners = (
  deps: Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'config' | 'log' | 'wakeServices'>,
): AgentListeners => ({
  // Loaded lazily: few requests publish or delete, and smaller functions start faster.
  async currentVersionChanged(agent) {
    const [, servicesUpdated] = await Promise.all([
      import('#core/automation/schedules/changes/follow-versions.ts').then((schedules) =>
        schedules.moveSchedulesToCurrentVersion(deps, agent),
      ),
      import('#core/services/follow-versions.ts').then((services) =>
        services.moveServicesToCurrentVersion(deps, agent),
      ),
    ]);
    return { servicesUpdated };
  },
});
