import { PlatformError } from '#core/base/errors.ts';
import type { Handlers } from '#core/http/route.ts';
import { refOf, versionName } from '#core/manifest/references.ts';
import { type AgentVersion, bundleKey } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { findDownloadable, findOwn, findOwnOrDev } from '../access.ts';
import { evalFilesKey } from '../eval-files.ts';
import { streamSkillFiles } from '../skills/skill-contents.ts';
import type { downloadRoutes } from './routes.ts';

export const downloadHandlers = (
  deps: Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>,
): Handlers<typeof downloadRoutes> => ({
  async downloadOwnBundle({ caller, params }) {
    return { status: 200, ...(await bundleAnswer(deps, await findOwnOrDev(deps, caller, params.id))) };
  },

  async downloadBundle({ params }) {
    return { status: 200, ...(await bundleAnswer(deps, await findDownloadable(deps, params))) };
  },

  async downloadOwnSkillFiles({ caller, params }) {
    return { status: 200, body: await filesAnswer(deps, await findOwnOrDev(deps, caller, params.id)) };
  },

  async downloadSkillFiles({ params }) {
    return { status: 200, body: await filesAnswer(deps, await findDownloadable(deps, params)) };
  },

  async downloadOwnEvalFiles({ caller, params }) {
    return { status: 200, body: await evalsAnswer(deps, await findOwn(deps, caller, params.id)) };
  },

  async downloadEvalFiles({ params }) {
    return { status: 200, body: await evalsAnswer(deps, await findDownloadable(deps, params)) };
  },
});

/** Throws NOT_FOUND for a version that was published without suites. */
async function evalsAnswer({ blobs }: Pick<Deps, 'blobs'>, version: AgentVersion) {
  const stream = version.evalFiles && (await blobs.stream(evalFilesKey(version.id)));
  if (stream !== undefined) return stream;
  throw new PlatformError('NOT_FOUND', `${refOf(version)} was published without suites.`);
}

/** Returns body and headers of a download. Throws NOT_FOUND for a version without code. */
async function bundleAnswer({ blobs }: Pick<Deps, 'blobs'>, version: AgentVersion) {
  const stream = version.bundle && (await blobs.stream(bundleKey(version.bundle)));
  if (stream === undefined) {
    throw new PlatformError('NOT_FOUND', `${version.name} ${versionName(version.version)} has no code bundle.`);
  }
  const name = `${version.name}-${versionName(version.version)}.zip`;
  return { body: stream, headers: { 'content-disposition': `attachment; filename="${name}"` } };
}

/** Throws NOT_FOUND for a version that is not a skill. */
async function filesAnswer(deps: Pick<Deps, 'blobs'>, version: AgentVersion) {
  const files = await streamSkillFiles(deps, version);
  if (files !== undefined) return files;
  throw new PlatformError('NOT_FOUND', `${version.name} ${versionName(version.version)} is not a skill with files.`);
}
