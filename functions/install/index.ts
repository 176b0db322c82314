import { blobParts, sandboxParts, tableParts } from '#aws/deps.ts';
import { type InstallJob, runInstall } from '#core/agents/install.ts';
import { host } from '../host.ts';

const blobs = blobParts(host);
const deps = { ...host, ...tableParts(host), ...blobs, ...sandboxParts({ ...host, ...blobs }) };

/** Called by `agents` after an upload. One that is delivered twice installs once. */
export const handler = (job: InstallJob): Promise<void> => runInstall(deps, job);
