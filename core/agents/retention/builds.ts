import { PlatformError } from '#core/base/errors.ts';
import { versionName } from '#core/manifest/references.ts';
import type { AgentVersion, Bundle, Install } from '#core/manifest/version.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, allOf, type Condition, equals, exists, type Item } from '#core/ports/table.ts';
import { type BundleItem, bundleItem, type InstallItem, installItem, readVersion, versionKey } from '../record.ts';
import { firstHolder, releaseHolder } from './blobs.ts';
import { releaseLayer, useLayer } from './layers.ts';
import { agentUse, checkRoom, planOfWorkspace, useOperation } from './storage-usage.ts';

type BuildDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'config'>;

/**
 * Makes a bundle the code of a version, replacing code that cannot run. If its key differs from the present bundle's,
 * the
 * bundle must be announced and written. Throws NOT_FOUND for a deleted version, CONFLICT for one that can run other
 * code,
 * STORAGE_QUOTA_EXCEEDED, DOCUMENT_TOO_LARGE.
 */
export async function attachBundle(
  deps: BuildDeps,
  version: AgentVersion,
  { bundle, install }: { readonly bundle: Bundle; readonly install?: Install },
): Promise<AgentVersion> {
  const { main, clock } = deps;
  const { workspaceId } = version;
  const plan = await planOfWorkspace(deps, workspaceId);
  const [key, name] = [versionKey(version), `${version.name} ${versionName(version.version)}`];
  return retryOnConflict(clock, `the agent version ${version.id}`, async () => {
    const item = await main.get(key);
    if (item === undefined || item.deleted_at !== undefined)
      throw new PlatformError('NOT_FOUND', `${name} was deleted.`);
    const [old, before] = [item.bundle as BundleItem | undefined, item.install as InstallItem | undefined];
    if (item.runnable && old !== undefined && old.sha256 !== bundle.sha256) {
      throw new PlatformError('CONFLICT', `${name} already has different code: publish a new version for this code.`);
    }
    const isNew = old?.key !== bundle.key;
    const layer =
      before?.held_layer === install?.heldLayer
        ? { growth: 0, operations: [] }
        : await releaseLayer(deps, workspaceId, before?.held_layer);
    const growth = {
      versions: 0,
      bytes: layer.growth + (isNew ? bundle.sizeBytes - (old?.size_bytes ?? 0) : 0),
    };
    checkRoom(plan, await agentUse(deps, workspaceId), growth);
    const set = {
      bundle: bundleItem(bundle),
      ...(install && { install: installItem(install) }),
      updated_at: isoTime(clock.now()),
      ...nextBuild(item),
    };
    const remove = install === undefined ? ['install'] : [];
    const { ok } = await main.transact([
      { op: 'update', key, changes: { set, remove }, condition: sameBuild(item) },
      useOperation(deps, workspaceId, growth, plan),
      ...(isNew ? [...firstHolder(bundle.key!), ...(await releaseHolder(deps, old?.key))] : []),
      ...layer.operations,
    ]);
    // Built from the written members: a fresh read could return a later upload.
    return ok ? readVersion(deps, { ...item, install: undefined, ...set }) : undefined;
  });
}

/** Whether a live version still waits for the installation of `version`; another upload replaces it. */
const isSameInstall = (item: Item | undefined, { install }: AgentVersion): item is Item =>
  item !== undefined &&
  item.deleted_at === undefined &&
  (item.install as InstallItem | undefined)?.run_id === install?.runId;

/**
 * Gives a version the layer that its installation waits for: the workspace's own, or else the announced blob `built`.
 * Returns `undefined` if neither exists or the version no longer waits. Throws STORAGE_QUOTA_EXCEEDED,
 * DOCUMENT_TOO_LARGE.
 */
export async function attachLayer(
  deps: BuildDeps,
  version: AgentVersion,
  hash: string,
  built?: { readonly key: string; readonly bytes: number; readonly sha256: string },
): Promise<AgentVersion | undefined> {
  const { main, clock } = deps;
  const { workspaceId } = version;
  const plan = await planOfWorkspace(deps, workspaceId);
  const key = versionKey(version);
  const { stored } = await retryOnConflict(clock, `the agent version ${version.id}`, async () => {
    const item = await main.get(key);
    if (!isSameInstall(item, version)) return { stored: undefined };
    const install = item.install as InstallItem;
    if (install.held_layer === hash) return { stored: await readVersion(deps, item) };
    const layer = await useLayer(deps, workspaceId, hash, built && { ...built, isNew: true });
    if (layer === undefined) return { stored: undefined };
    const growth = { versions: 0, bytes: layer.growth };
    if (growth.bytes > 0) checkRoom(plan, await agentUse(deps, workspaceId), growth);
    const ready = {
      ...install,
      status: 'ready',
      layer: layer.key,
      held_layer: hash,
      ...(layer.sha256 !== undefined && { layer_sha256: layer.sha256 }),
    };
    const set = { install: ready, updated_at: isoTime(clock.now()), ...nextBuild(item) };
    const { ok } = await main.transact([
      { op: 'update', key, changes: { set }, condition: sameBuild(item) },
      ...(growth.bytes > 0 ? [useOperation(deps, workspaceId, growth, plan)] : []),
      ...layer.operations,
    ]);
    return ok ? { stored: await readVersion(deps, { ...item, ...set }) } : undefined;
  });
  return stored;
}

/** Records that the installation a version waits for has failed. */
export async function failInstall(deps: BuildDeps, version: AgentVersion, error: string): Promise<void> {
  const { main, clock } = deps;
  const key = versionKey(version);
  await retryOnConflict(clock, `the agent version ${version.id}`, async () => {
    const item = await main.get(key);
    if (!isSameInstall(item, version)) return true;
    const install = { ...(item.install as InstallItem), status: 'failed' as const, error };
    const set = { install, updated_at: isoTime(clock.now()), ...nextBuild(item) };
    return (await main.transact([{ op: 'update', key, changes: { set }, condition: sameBuild(item) }])).ok || undefined;
  });
}

/** Increments `build`, which changes with a version's bundle or installation. */
const nextBuild = ({ build }: Item) => ({ build: ((build as number | undefined) ?? 0) + 1 });

/** Condition that bundle, installation and size of a live version have not changed since `item` was read. */
export const sameBuild = ({ build, definition_bytes: size }: Item): Condition =>
  allOf(
    exists(),
    absent('deleted_at'),
    build === undefined ? absent('build') : equals('build', build as number),
    size === undefined ? absent('definition_bytes') : equals('definition_bytes', size as number),
  );
