import { revokeAllStaticKeys } from '#core/accounts/service-keys/store.ts';
import { PlatformError } from '#core/base/errors.ts';
import { lazy } from '#core/base/lazy.ts';
import { planOf } from '#core/base/plans.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { AgentDefinition } from '#core/manifest/definition.ts';
import { refOf } from '#core/manifest/references.ts';
import type { AgentVersion, Install } from '#core/manifest/version.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, allOf, exists, type TransactOperation } from '#core/ports/table.ts';
import { promote } from './dev/publish.ts';
import type { AgentListeners } from './listeners.ts';
import {
  changeHead,
  idKey,
  newVersionItem,
  readHead,
  readVersion,
  storeDefinition,
  type VersionState,
  versionKey,
} from './record.ts';
import { announceBlob, furtherHolder, keepAnnounced } from './retention/blobs.ts';
import { sameBuild } from './retention/builds.ts';
import { layerOf, useLayer } from './retention/layers.ts';
import { deletedVersion } from './retention/removal.ts';
import { agentUse, bytesOfVersion, checkRoom, useOperation } from './retention/storage-usage.ts';
import { AgentStore } from './store.ts';

/** See `docs/interface/agents.md#deletion`. */
// Loaded lazily: few publishes remove a version.
const channelStore = lazy(() => import('./channels/store.ts'));

const DELETION_RETENTION_SECONDS = 30 * 24 * 3600;

/** Every change to an agent's current version in this file notifies the listeners. */
export type PublishDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'config'> & {
  readonly listeners: AgentListeners;
};

/** A new version and the number of services that were updated to it. */
export type Published = AgentVersion & { readonly servicesUpdated: number };

/** An agent: all versions of one name in one workspace. */
type Agent = Pick<AgentVersion, 'workspaceId' | 'name'>;

/**
 * Publishes the next version of `definition.name` in `workspace`; a runnable one is current at once. Version numbers
 * have
 * no gaps or duplicates, even if several processes publish at once. The number of a deleted version is never reused, so
 * an
 * address never changes its meaning. Throws STORAGE_QUOTA_EXCEEDED if the version would exceed the quota of the plan.
 */
export async function publish(
  deps: PublishDeps,
  workspace: Workspace,
  definition: AgentDefinition,
  state: VersionState,
): Promise<Published> {
  const { main, clock, ids } = deps;
  const { name } = definition;
  const id = ids.uuid();
  const plan = planOf(deps, workspace);
  const small = { versions: 1, bytes: state.bundle?.sizeBytes ?? 0 };
  const announced: string[] = [];
  const stored = await storeDefinition(deps, id, definition, async (blob) => {
    // Checked before a large definition is written.
    checkRoom(plan, await agentUse(deps, workspace.id), small);
    announced.push(blob);
    await announceBlob(deps, blob);
  });
  const agent: Agent = { workspaceId: workspace.id, name };

  const published = await retryOnConflict(clock, `the agent ${name}`, async () => {
    const head = await readHead(deps, workspace.id, name);
    const version = head.assigned + 1;
    const now = isoTime(clock.now());
    const copied = await copiedBlobs(deps, workspace.id, state);
    const item = newVersionItem(
      { id, workspace, name, version, firstVersion: head.first_version },
      { ...state, install: copied.install, isPublic: definition.is_public, definition: stored, now },
    );
    const growth = { versions: 1, bytes: bytesOfVersion(item) + copied.growth };
    checkRoom(plan, await agentUse(deps, workspace.id), growth);
    const result = await main.transact([
      { op: 'put', item, condition: absent() },
      { op: 'put', item: { ...idKey(id), workspace_id: workspace.id, name, version } },
      changeHead(agent, head, { assigned: version, ...(state.runnable && { current: version }) }),
      ...(state.runnable ? supersede(agent, head.current, now) : []),
      useOperation(deps, workspace.id, growth, plan),
      ...announced.map(keepAnnounced),
      ...copied.operations,
    ]);
    return result.ok ? readVersion(deps, item) : undefined;
  });
  const told = state.runnable ? await deps.listeners.currentVersionChanged(agent) : undefined;
  return { ...published, servicesUpdated: told?.servicesUpdated ?? 0 };
}

/** Operations by which a new version of `workspaceId` uses the bundle and layer of the version it copies. */
async function copiedBlobs(
  deps: Pick<PublishDeps, 'main'>,
  workspaceId: string,
  { bundle, install, copyOf }: VersionState,
): Promise<{ readonly install?: Install; readonly growth: number; readonly operations: TransactOperation[] }> {
  const operations = bundle?.key === undefined ? [] : [furtherHolder(bundle.key)];
  const hash = install?.heldLayer;
  if (hash === undefined || copyOf === undefined) return { install, growth: 0, operations };
  const layer = await useLayer(deps, workspaceId, hash, await layerOf(deps, copyOf.workspaceId, hash));
  if (layer === undefined) throw new Error(`the layer ${hash} of ${copyOf.workspaceId} is missing`);
  return {
    install: { ...install!, layer: layer.key, layerSha256: layer.sha256 },
    growth: layer.growth,
    operations: [...operations, ...layer.operations],
  };
}

/**
 * Makes a version runnable, and current unless a newer one is. A build of `dev`, which no service follows, becomes the
 * called
 * one. Safe to repeat, and a no-op for a deleted version. Returns the number of services that were updated to it.
 */
export async function makeCurrent(deps: PublishDeps, version: AgentVersion): Promise<number> {
  const { main, clock } = deps;
  const { workspaceId, name, devOf } = version;
  if (devOf !== undefined) {
    await promote(deps, { ...version, devOf });
    return 0;
  }
  await retryOnConflict(clock, `the agent ${name}`, async () => {
    // The head is read first, so the version is at least as recent as the head.
    const head = await readHead(deps, workspaceId, name);
    const stored = await new AgentStore(deps, workspaceId).findVersion(name, version.version);
    if (stored === undefined || stored.runnable) return true;
    const now = isoTime(clock.now());
    const isNewest = version.version > head.current;
    const result = await main.transact([
      {
        op: 'update',
        key: versionKey(version),
        changes: { set: { runnable: true, updated_at: now, ...(!isNewest && { superseded_at: now }) } },
        condition: allOf(exists(), absent('deleted_at')),
      },
      changeHead(version, head, isNewest ? { current: version.version } : {}),
      ...(isNewest ? supersede(version, head.current, now) : []),
    ]);
    return result.ok || result.failed.includes(0) || undefined;
  });
  return (await deps.listeners.currentVersionChanged(version)).servicesUpdated;
}

/**
 * Soft-deletes versions of one agent in the given order: they can no longer be found, and are purged after 30 days. The
 * newest remaining runnable version becomes current. The agent's service keys are deleted with its last version. Throws
 * CONFLICT for a version that a channel names.
 *
 * @param withChannels Whether to delete channels that name the versions. @default false
 */
export async function removeVersions(
  deps: PublishDeps,
  agent: Pick<AgentVersion, 'workspaceId' | 'name' | 'orgSlug'>,
  versions: readonly AgentVersion[],
  { withChannels = false }: { readonly withChannels?: boolean } = {},
): Promise<void> {
  const { workspaceId, name } = agent;
  for (const version of versions) await removeVersion(deps, version, withChannels);
  if ((await new AgentStore(deps, workspaceId).listVersions(name)).length === 0) {
    await revokeAllStaticKeys(deps, { workspaceId, agentName: name });
    if (withChannels) await new (await channelStore()).ChannelStore(deps, agent).removeHistories();
  }
  await deps.listeners.currentVersionChanged(agent);
}

async function removeVersion(
  deps: Omit<PublishDeps, 'listeners'>,
  version: AgentVersion,
  withChannels: boolean,
): Promise<void> {
  const { main, clock } = deps;
  const { workspaceId, name } = version;
  const { channelsOf, watchedIndex } = await channelStore();
  await agentUse(deps, workspaceId);
  await retryOnConflict(clock, `the agent ${name}`, async () => {
    const item = await main.get(versionKey(version));
    if (item === undefined || item.deleted_at !== undefined) return true;
    const head = await readHead(deps, workspaceId, name);
    const naming = channelsOf(head.channels, version.version);
    if (naming.length > 0 && !withChannels) throw isNamed(version, naming[0]!);
    const kept = Object.entries(head.channels).filter(([channel]) => !naming.includes(channel));
    const channels = Object.fromEntries(kept);
    const isCurrent = head.current === version.version;
    const live = await new AgentStore(deps, workspaceId).listVersions(name);
    const next = isCurrent ? live.findLast((other) => other.runnable && other.version !== version.version) : undefined;
    const isLast = live.every((other) => other.version === version.version);
    const now = clock.now();
    const ttl = epochSeconds(now) + DELETION_RETENTION_SECONDS;
    const result = await main.transact([
      {
        op: 'update',
        key: versionKey(version),
        changes: { set: { deleted_at: isoTime(now), ttl }, remove: ['gsi1pk', 'gsi1sk', 'gsi2pk', 'gsi2sk'] },
        condition: sameBuild(item),
      },
      deletedVersion(item, ttl * 1000),
      { op: 'update', key: idKey(version.id), changes: { set: { ttl } } },
      changeHead(
        version,
        head,
        {
          ...(isCurrent && { current: next?.version ?? 0 }),
          ...(isLast && { first_version: head.assigned + 1 }),
          ...(naming.length > 0 && { channels }),
        },
        naming.length > 0 ? watchedIndex(version, channels) : {},
      ),
      ...(next ? [{ op: 'update' as const, key: versionKey(next), changes: { remove: ['superseded_at'] } }] : []),
    ]);
    return result.ok || undefined;
  });
}

const isNamed = (version: AgentVersion, channel: string): PlatformError =>
  new PlatformError('CONFLICT', `${refOf(version)} cannot be deleted: the channel ${channel} names it.`, {
    hint: 'Let the channel name another version first, or delete the channel.',
  });

/** Operation that marks the former current version as superseded. */
function supersede({ workspaceId, name }: Agent, current: number, at: string): TransactOperation[] {
  if (current === 0) return [];
  const key = versionKey({ workspaceId, name, version: current });
  return [{ op: 'update', key, changes: { set: { superseded_at: at } } }];
}
