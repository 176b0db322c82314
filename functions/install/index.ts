import { blobParts, sandboxParts, tableParts, wakeParts } from '#aws/deps.ts';
import { install } from '#core/api/install.ts';
import type { InstallJob } from '#core/ports/deps.ts';
import { host } from '../host.ts';

const parts = { ...host, ...tableParts(host), ...blobParts(host) };
const deps = { ...parts, ...sandboxParts(parts), ...wakeParts(host) };

/** Called by `agents` after an upload. A job that is delivered twice installs once. */
export const handler = (job: InstallJob): Promise<void> => install(deps, job);
