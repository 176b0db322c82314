import type { PublishDeps } from '#core/agents/publish.ts';

/** Dependencies for publishing without listeners, as after a process that died before it notified them. */
export const withoutListeners = (deps: Omit<PublishDeps, 'listeners'>): PublishDeps => ({
  ...deps,
  listeners: { currentVersionChanged: async () => ({ servicesUpdated: 0 }) },
});
