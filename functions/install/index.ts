import { blobParts, sandboxParts, tableParts, wakeParts } from '#aws/deps.ts';
import { install } from '#core/api/install.ts';
import type { InstallJob } from '#core/ports/deps.ts';
import { host } from '../host.ts';

const parts = { ...host, ...tableParts(host), ...blobParts(host) };
const deps = { ...parts, ...sandboxParts(parts), ...wakeParts(host) };

/** Invoked by `agents` after an upload. Idempotent if a job is delivered twice. */
export const handler = (job: InstallJob): Promise<void> => install(deps, job);
