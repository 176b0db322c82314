import { runInstall } from '#core/execution/install/install.ts';
import type { InstallJob } from '#core/ports/deps.ts';
import { agentListeners } from './agent-listeners.ts';

type InstallDeps = Omit<Parameters<typeof runInstall>[0], 'listeners'> & Parameters<typeof agentListeners>[0];

export const install = (deps: InstallDeps, job: InstallJob): Promise<void> =>
  runInstall({ ...deps, listeners: agentListeners(deps) }, job);
