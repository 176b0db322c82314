import { beginInstallation, endInstallation } from '#core/accounts/limits/installations.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { mediaType, readJson } from '#core/http/body.ts';
import { directLimit } from '#core/http/direct-limit.ts';
import type { HttpRequest } from '#core/http/message.ts';
import { readMultipart } from '#core/http/multipart.ts';
import type { BundleContents } from '#core/manifest/bundle/bundle-contents.ts';
import { registryTargets } from '#core/manifest/bundle/registries.ts';
import { needsBundle, traitsOf } from '#core/manifest/engines.ts';
import { versionName } from '#core/manifest/references.ts';
import {
  type AgentVersion,
  type Bundle,
  type Install,
  newBundleKey,
  newLayerKey,
  PACKING_MS,
} from '#core/manifest/version.ts';
import { checkBundle } from '#core/manifest/worker-pool/checks.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps, InstallJob } from '#core/ports/deps.ts';
import { makeCurrent, type PublishDeps } from './publish.ts';
import { announceBlob } from './retention/blobs.ts';
import { attachBundle, attachLayer } from './retention/builds.ts';
import { layerOf } from './retention/layers.ts';
import { AgentStore } from './store.ts';
import { readUploads } from './uploads/store.ts';

/** Allowance for the multipart headers around the file. */
const MULTIPART_OVERHEAD_BYTES = 64 * 1024;
/** Clients time out after 15 s. A longer installation continues in the background. */
const UPLOAD_WAIT_MS = 10_000;
/** Polling interval while another process installs. */
const UPLOAD_POLL_MS = 500;

type UploadDeps = PublishDeps & Pick<Deps, 'config' | 'counters' | 'sandbox' | 'startInstall'>;

/**
 * Reads the zip from the body of an upload: the part `file` or `bundle` of a multipart body, or the workspace's earlier
 * upload that a JSON body names. Throws DOCUMENT_TOO_LARGE before reading more than the limit, INVALID_INPUT,
 * NOT_FOUND,
 * UNSUPPORTED_TYPE.
 */
export async function readBundle(
  deps: Pick<Deps, 'config' | 'blobs' | 'clock'>,
  workspaceId: string,
  request: HttpRequest,
): Promise<Uint8Array> {
  const limit = deps.config.maxBundleBytes;
  const type = mediaType(request);
  if (type === 'application/json') {
    const body = (await readJson(request, { bytes: 1024 })) as { readonly upload_id?: unknown } | null | undefined;
    const id = body?.upload_id;
    if (typeof id !== 'string') throw new PlatformError('INVALID_INPUT', 'The body must be {"upload_id": "upl_..."}.');
    const [bundle] = await readUploads(deps, workspaceId, { purpose: 'bundle', ids: [id], limit });
    return bundle!;
  }
  if (type !== 'multipart/form-data') {
    throw new PlatformError(
      'UNSUPPORTED_TYPE',
      'Upload the bundle as multipart/form-data with one part named "file", or name it as JSON: {"upload_id": "upl_..."}.',
    );
  }
  const { files } = await readMultipart(request, directLimit(deps.config, limit + MULTIPART_OVERHEAD_BYTES));
  const bundles = files.filter(({ field }) => field === 'file' || field === 'bundle');
  if (bundles.length !== 1) {
    throw new PlatformError(
      'INVALID_INPUT',
      `The upload needs exactly one part named "file" with the zip; it has ${bundles.length}.`,
    );
  }
  if (bundles[0]!.content.byteLength > limit) {
    throw new PlatformError('DOCUMENT_TOO_LARGE', `The bundle is larger than ${Math.floor(limit / 1024 ** 2)} MB.`);
  }
  return bundles[0]!.content;
}

/** Throws INVALID_INPUT if the version has no code: see {@link needsBundle}. */
export function checkTakesBundle({ definition }: AgentVersion): void {
  if (needsBundle(definition)) return;
  const { execution_engine: engine } = definition;
  if (traitsOf(engine).hasLoop) {
    throw new PlatformError('INVALID_INPUT', 'This loop has no code bundle: its manifest has no member "bundle".', {
      hint: 'Publish a version with "bundle": {} in its manifest, then upload the code for its tools.',
    });
  }
  throw new PlatformError(
    'INVALID_INPUT',
    `Only code_runtime agents have a code bundle; this one is ${engine === null ? 'a skill' : `run by ${engine}`}.`,
  );
}

/** A version's code after an upload; `install` is absent if there is nothing to install. */
export interface StoredBundle {
  readonly contents: BundleContents;
  readonly bundle: Bundle;
  readonly install?: Install;
  /** Number of services that this upload updated to the version. */
  readonly servicesUpdated: number;
}

/**
 * Checks a zip, stores it as the code of a version and installs its dependencies; the run `runId` shows the
 * installation.
 * Returns once the version can run or has failed, or after ten seconds. Throws INVALID_INPUT, CONFLICT, NOT_FOUND and
 * STORAGE_QUOTA_EXCEEDED. Throws RATE_LIMITED, storing nothing, if the workspace has too many installations in progress
 * or
 * has used up its time for checks.
 *
 * @param workspace Workspace of the version
 */
export async function storeBundle(
  deps: UploadDeps,
  workspace: Workspace,
  version: AgentVersion,
  zip: Uint8Array,
  { entrypoint, runId }: { readonly entrypoint: string | undefined; readonly runId: string },
): Promise<StoredBundle> {
  const { interpreters } = await deps.sandbox.status();
  const use = { version, entrypoint, interpreters, registries: registryTargets(deps.config) };
  const contents = await checkBundle(deps, workspace, zip, use);
  const isBuilding = version.install?.status === 'building';
  checkSameCode(version, contents, isBuilding);
  if (isBuilding) return { contents, bundle: version.bundle!, install: version.install, servicesUpdated: 0 };

  const { sha256, layerHash: hash } = contents;
  const known = version.bundle?.sha256 === sha256 ? version.bundle.key : undefined;
  const key = known ?? newBundleKey(sha256, runId);
  const bundle: Bundle = {
    sha256,
    key,
    sizeBytes: zip.byteLength,
    entrypoint: contents.entrypoint,
    uploadedAt: isoTime(deps.clock.now()),
  };
  const install = hash === undefined ? undefined : newInstall(deps, version, hash, runId);
  const store = async () => {
    if (known === undefined) {
      await announceBlob(deps, key);
      await deps.blobs.put(key, zip);
    }
    return attachBundle(deps, version, { bundle, install });
  };
  const isBuilt = install?.status !== 'building' || (await layerOf(deps, version.workspaceId, hash!)) !== undefined;
  let stored: AgentVersion | undefined;
  if (isBuilt) {
    stored = await store();
    const ready = install?.status === 'building' ? await attachLayer(deps, stored, hash!) : stored;
    if (ready !== undefined) {
      const servicesUpdated = await makeCurrent(deps, ready);
      return { contents, bundle, install: ready.install, servicesUpdated };
    }
    // The layer's last version was just purged, so the layer must be built again.
  }
  await beginInstallation(deps, workspace, install!);
  try {
    const job = { versionId: version.id, runId };
    const ended = await waitForInstall(deps, stored ?? (await store()), job);
    // The installation updates the services, possibly after this response.
    return { contents, bundle, install: ended, servicesUpdated: 0 };
  } catch (error) {
    await endInstallation(deps, workspace.id, runId);
    throw error;
  }
}

/** Throws CONFLICT unless the upload has the same bytes or replaces code whose installation failed. */
function checkSameCode(version: AgentVersion, { sha256 }: BundleContents, isBuilding: boolean): void {
  if (version.bundle === undefined || version.bundle.sha256 === sha256) return;
  const name = `${version.name} ${versionName(version.version)}`;
  if (version.runnable) {
    throw new PlatformError('CONFLICT', `${name} already has different code: publish a new version for this code.`);
  }
  if (isBuilding) {
    throw new PlatformError('CONFLICT', `The dependencies of ${name} are being installed: upload again afterwards.`);
  }
}

/** Returns the version's present installation if its layer has this hash, otherwise a new one. */
function newInstall(deps: UploadDeps, version: AgentVersion, hash: string, runId: string): Install {
  if (version.install?.heldLayer === hash) return version.install;
  const deadline = deps.clock.now() + deps.config.installTimeoutMs + PACKING_MS;
  return { status: 'building', layer: newLayerKey(hash, runId), runId, deadline };
}

/** Starts an installation, and returns its state when the version can run or has failed, or after ten seconds. */
async function waitForInstall(deps: UploadDeps, version: AgentVersion, job: InstallJob): Promise<Install> {
  const store = new AgentStore(deps, version.workspaceId);
  const until = deps.clock.now() + UPLOAD_WAIT_MS;
  await Promise.race([deps.startInstall(job), deps.clock.sleep(UPLOAD_WAIT_MS)]);
  for (;;) {
    const { runnable, install = version.install! } = (await store.find(version.id, version.devOf)) ?? version;
    if (runnable || install.status === 'failed') return install;
    // The dependencies may be present already, but until the version is runnable, `latest` calls the previous one.
    if (deps.clock.now() >= until) return { ...install, status: 'building' };
    await deps.clock.sleep(UPLOAD_POLL_MS);
  }
}
