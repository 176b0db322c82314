import type { PublishDeps } from '#core/agents/publish.ts';

/** Dependencies for publishing where no other wing follows, as after a process that died before it told the listeners. */
export const withoutListeners = (deps: Omit<PublishDeps, 'listeners'>): PublishDeps => ({
  ...deps,
  listeners: { currentVersionChanged: async () => ({ servicesUpdated: 0 }) },
});
