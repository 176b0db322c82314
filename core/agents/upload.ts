import { PlatformError } from '#core/base/errors.ts';
import { mediaType, readJson } from '#core/http/body.ts';
import { directLimit } from '#core/http/direct-limit.ts';
import { readMultipart } from '#core/http/multipart.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps, InstallJob } from '#core/ports/deps.ts';
import { type BundleReport, inspectBundle } from './bundle/bundle.ts';
import { detectEntrypoint } from './bundle/entrypoint.ts';
import { planInstall } from './bundle/install-plan.ts';
import { makeCurrent, type PublishDeps } from './publish.ts';
import { versionName } from './references.ts';
import { AgentStore } from './store.ts';
import { readUploads } from './uploads/store.ts';
import { type AgentVersion, type Bundle, bundleKey, type Install } from './version.ts';

/** Multipart adds some lines around the file. */
const MULTIPART_OVERHEAD_BYTES = 64 * 1024;
/** Clients give up on an upload after 15 s; an installation that takes longer goes on. */
const UPLOAD_WAIT_MS = 10_000;
/** How often the record is read while another process installs. */
const UPLOAD_POLL_MS = 500;

type UploadDeps = PublishDeps & Pick<Deps, 'config' | 'sandbox' | 'startInstall'>;

/**
 * The zip in the body of an upload: the part `file` or `bundle` of a multipart body, or the earlier upload of the
 * workspace that a JSON body names. Throws DOCUMENT_TOO_LARGE before it has read more than the limit, INVALID_INPUT,
 * NOT_FOUND, UNSUPPORTED_TYPE.
 */
export async function readBundle(
  deps: Pick<Deps, 'config' | 'blobs' | 'clock'>,
  workspaceId: string,
  request: Request,
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

/** Throws INVALID_INPUT for an agent that is no program. */
export function checkTakesBundle({ definition: { execution_engine: engine } }: AgentVersion): void {
  if (engine === 'code_runtime') return;
  throw new PlatformError(
    'INVALID_INPUT',
    `Only code_runtime agents have a code bundle, and this one is run by ${engine ?? 'nothing: it is a skill'}.`,
  );
}

/** A version's code after an upload; `install` is absent when there is nothing to install. */
export interface StoredBundle {
  readonly report: BundleReport;
  readonly bundle: Bundle;
  readonly install?: Install;
}

/**
 * Checks a zip, stores it as the code of a version and installs its dependencies; the run `runId` shows the installation.
 * Returns once the version can run or has failed, or after ten seconds. Throws INVALID_INPUT, CONFLICT.
 */
export async function storeBundle(
  deps: UploadDeps,
  version: AgentVersion,
  zip: Uint8Array,
  { entrypoint, runId }: { readonly entrypoint: string | undefined; readonly runId: string },
): Promise<StoredBundle> {
  const report = await inspectBundle(zip);
  const isBuilding = version.install?.status === 'building' && version.install.deadline > deps.clock.now();
  checkSameCode(version, report, isBuilding);
  if (isBuilding) return { report, bundle: version.bundle!, install: version.install };

  const bundle: Bundle = {
    sha256: report.sha256,
    sizeBytes: report.bytes.byteLength,
    entrypoint: detectEntrypoint(report, version.definition, entrypoint) ?? null,
    uploadedAt: isoTime(deps.clock.now()),
  };
  await deps.blobs.put(bundleKey(bundle.sha256), report.bytes);
  const install = await newInstall(deps, version, report, runId);
  const stored = await new AgentStore(deps, version.workspaceId).setBuild(version, { bundle, install });
  if (install?.status === 'building') {
    return { report, bundle, install: await waitForInstall(deps, stored, { versionId: version.id, runId }) };
  }
  await makeCurrent(deps, stored);
  return { report, bundle, install };
}

/** A version's code does not change: a second upload must bring the same bytes, or replace code that cannot run. */
function checkSameCode(version: AgentVersion, report: BundleReport, isBuilding: boolean): void {
  if (version.bundle === undefined || version.bundle.sha256 === report.sha256) return;
  const name = `${version.name} ${versionName(version.version)}`;
  if (version.runnable) {
    throw new PlatformError('CONFLICT', `${name} has other code already: publish a new version for this one.`);
  }
  if (isBuilding) {
    throw new PlatformError('CONFLICT', `The dependencies of ${name} are being installed: upload again afterwards.`);
  }
}

/** The installation that a bundle needs: `ready` when its layer exists already, `undefined` when it needs none. */
async function newInstall(
  deps: UploadDeps,
  version: AgentVersion,
  report: BundleReport,
  runId: string,
): Promise<Install | undefined> {
  const plan = await planInstall(deps, version, report);
  if (plan === undefined) return undefined;
  return {
    status: (await deps.blobs.size(plan.layer)) === undefined ? 'building' : 'ready',
    layer: plan.layer,
    runId,
    deadline: deps.clock.now() + deps.config.installTimeoutMs,
  };
}

/** Starts an installation, and returns its state when it has ended, or after ten seconds. */
async function waitForInstall(deps: UploadDeps, version: AgentVersion, job: InstallJob): Promise<Install> {
  const store = new AgentStore(deps, version.workspaceId);
  const until = deps.clock.now() + UPLOAD_WAIT_MS;
  await Promise.race([deps.startInstall(job), deps.clock.sleep(UPLOAD_WAIT_MS)]);
  for (;;) {
    const install = (await store.find(version.id))?.install ?? version.install!;
    if (install.status !== 'building' || deps.clock.now() >= until) return install;
    await deps.clock.sleep(UPLOAD_POLL_MS);
  }
}
