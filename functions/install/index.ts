import { blobParts, tableParts } from '#aws/deps.ts';
import { NoSandbox } from '#aws/no-sandbox.ts';
import { type InstallJob, runInstall } from '#core/agents/install.ts';
import { host } from '../host.ts';

const deps = { ...host, ...tableParts(host), ...blobParts(host), sandbox: new NoSandbox() };

/** Called by `agents` after an upload. One that is delivered twice installs once. */
export const handler = (job: InstallJob): Promise<void> => runInstall(deps, job);
