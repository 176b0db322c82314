import { blobParts, sandboxParts, tableParts } from '#aws/deps.ts';
import { agentListeners } from '#core/api/listeners.ts';
import type { InstallJob } from '#core/ports/deps.ts';
import { runInstall } from '#core/running/install/install.ts';
import { host } from '../host.ts';

const blobs = blobParts(host);
const deps = { ...host, ...tableParts(host), ...blobs, ...sandboxParts({ ...host, ...blobs }) };

/** Called by `agents` after an upload. One that is delivered twice installs once. */
export const handler = (job: InstallJob): Promise<void> =>
  runInstall({ ...deps, listeners: agentListeners(deps) }, job);
