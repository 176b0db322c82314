import type { InstallJob } from '#core/ports/deps.ts';
import { runInstall } from '#core/running/install/install.ts';
import { agentListeners } from './listeners.ts';

type InstallDeps = Omit<Parameters<typeof runInstall>[0], 'listeners'> & Parameters<typeof agentListeners>[0];

export const install = (deps: InstallDeps, job: InstallJob): Promise<void> =>
  runInstall({ ...deps, listeners: agentListeners(deps) }, job);
