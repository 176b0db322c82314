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
import { absent, allOf, exists, type Item, type TransactOperation } from '#core/ports/table.ts';
import { promote } from './dev/publish.ts';
import { awaitGate, newGate, standingOf } from './gates/gate.ts';
import { gateItem } from './gates/gate-item.ts';
import { mayBeCurrent } from './gates/standing.ts';
import type { AgentListeners } from './listeners.ts';
import { checkNewPreview, previewEnd, previewIndex, withoutPreviewsOf } from './previews/preview.ts';
import {
  changeHead,
  type Head,
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
import { switchTo } from './switch.ts';

// Loaded lazily: few publishes remove a version.
const channelStore = lazy(() => import('./channels/store.ts'));

/** See `docs/interface/agents.md#deletion`. */
const DELETION_RETENTION_SECONDS = 30 * 24 * 3600;
/** Longer than runs whose caller waits, which may read code and layer until they end. */
const PREVIEW_PURGE_MS = 3600_000;

/** Every change to an agent's current version in this file notifies the listeners. */
export type PublishDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'config'> & {
  readonly listeners: AgentListeners;
};

/** A new version and the number of services that were updated to it. */
export type Published = AgentVersion & { readonly servicesUpdated: number };

/** An agent: all versions of one name in one workspace. */
type Agent = Pick<AgentVersion, 'workspaceId' | 'name'>;

/**
 * Publishes the next version of `definition.name` in `workspace`; a runnable one is current at once, unless it has a gate or is
 * a preview. Version numbers have no gaps or duplicates, even if several processes publish at once. The number of a deleted
 * version is never reused, so an address never changes its meaning. A preview takes its name from the version that had it,
 * which is removed. Throws STORAGE_QUOTA_EXCEEDED if the version would exceed the quota of the plan, CONFLICT for a preview with
 * the name of a channel.
 */
export async function publish(
  deps: PublishDeps,
  workspace: Workspace,
  given: AgentDefinition,
  state: VersionState,
): Promise<Published> {
  const { main, clock, ids } = deps;
  // Only members of its workspace may see a preview.
  const definition = state.preview === undefined ? given : { ...given, is_public: false };
  const { name } = definition;
  const id = ids.uuid();
  const plan = planOf(deps, workspace);
  const small = { versions: 1, bytes: state.bundle?.sizeBytes ?? 0 };
  const announced: string[] = [];
  const announce = async (blob: string) => {
    // Checked before a large definition is written.
    checkRoom(plan, await agentUse(deps, workspace.id), small);
    announced.push(blob);
    await announceBlob(deps, blob);
  };
  const stored = await storeDefinition(deps, id, definition, announce, state.evals);
  const agent: Agent = { workspaceId: workspace.id, name };

  const published = await retryOnConflict(clock, `the agent ${name}`, async () => {
    const head = await readHead(deps, workspace.id, name);
    const version = head.assigned + 1;
    const now = isoTime(clock.now());
    const copied = await copiedBlobs(deps, workspace.id, state);
    const gate = state.gatedFor && newGate(id, state.gatedFor, state.runnable ? now : null);
    const preview =
      state.preview === undefined ? undefined : await newPreview(deps, workspace, definition, head, state);
    const item = newVersionItem(
      { id, workspace, name, version, firstVersion: head.first_version },
      {
        ...{ ...state, install: copied.install, isPublic: definition.is_public, definition: stored, now, gate },
        preview: preview && { name: state.preview!, endsAt: preview.endsAt },
      },
    );
    const growth = { versions: 1, bytes: bytesOfVersion(item) + copied.growth };
    checkRoom(plan, await agentUse(deps, workspace.id), growth);
    const switched = mayBeCurrent(standingOf(item)) ? switchTo({ ...agent, version }, head, now) : undefined;
    const previews = preview && { ...head.previews, [state.preview!]: { version, ends_at: preview.endsAt } };
    const result = await main.transact([
      { op: 'put', item, condition: absent() },
      { op: 'put', item: { ...idKey(id), workspace_id: workspace.id, name, version } },
      changeHead(
        agent,
        head,
        { assigned: version, ...switched?.head, ...(previews && { previews }) },
        previews && previewIndex(agent, previews),
      ),
      ...(switched?.operations ?? []),
      ...(gate && state.runnable ? [awaitGate({ ...agent, id, version }, clock.now())] : []),
      useOperation(deps, workspace.id, growth, plan),
      ...announced.map(keepAnnounced),
      ...copied.operations,
      ...(preview?.operations ?? []),
    ]);
    return result.ok ? readVersion(deps, item) : undefined;
  });
  const told = mayBeCurrent(published) ? await deps.listeners.currentVersionChanged(agent) : undefined;
  return { ...published, servicesUpdated: told?.servicesUpdated ?? 0 };
}

/** Returns when a new preview ends, and the operations that remove the version that had its name. Throws CONFLICT. */
async function newPreview(
  { main, clock }: Pick<PublishDeps, 'main' | 'clock'>,
  { id: workspaceId, slug: orgSlug }: Workspace,
  { name }: AgentDefinition,
  head: Head,
  { preview }: VersionState,
): Promise<{ readonly endsAt: string; readonly operations: readonly TransactOperation[] }> {
  checkNewPreview({ orgSlug, name }, preview!, head);
  const before = Object.hasOwn(head.previews, preview!) ? head.previews[preview!] : undefined;
  const item = before && (await main.get(versionKey({ workspaceId, name, version: before.version })));
  const operations = item === undefined || item.deleted_at !== undefined ? [] : removal(item, clock.now());
  return { endsAt: previewEnd(clock.now()), operations };
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
 * Makes a version runnable, and current unless a newer one is, it has a gate or it is a preview. A version with a gate now waits
 * for its evaluation. A build of `dev`, which no service follows, becomes the called one. Safe to repeat, and a no-op for a
 * deleted version. Returns the number of services that were updated to it.
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
    const { gate } = stored;
    const waits = gate?.status === 'pending';
    const switched = mayBeCurrent({ ...stored, runnable: true }) ? switchTo(version, head, now) : undefined;
    const set = { runnable: true, updated_at: now, ...switched?.set };
    const result = await main.transact([
      {
        op: 'update',
        key: versionKey(version),
        changes: { set: { ...set, ...(waits && { gate: gateItem({ ...gate, since: now }) }) } },
        condition: allOf(exists(), absent('deleted_at')),
      },
      changeHead(version, head, switched?.head ?? {}),
      ...(switched?.operations ?? []),
      ...(waits ? [awaitGate(stored, clock.now())] : []),
    ]);
    return result.ok || result.failed.includes(0) || undefined;
  });
  return (await deps.listeners.currentVersionChanged(version)).servicesUpdated;
}

/**
 * Soft-deletes versions of one agent in the given order: they can no longer be found, and are purged after 30 days. The
 * newest remaining version that may be becomes current. The agent's service keys are deleted with its last version. Throws
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

/** Removes one version as {@link removeVersions} does, without what follows from it. */
export async function removeVersion(
  deps: Pick<PublishDeps, 'main' | 'blobs' | 'clock' | 'ids'>,
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
    const next = isCurrent
      ? live.findLast((other) => mayBeCurrent(other) && other.version !== version.version)
      : undefined;
    const isLast = live.every((other) => other.version === version.version);
    const previews = withoutPreviewsOf(head.previews, version.version);
    const changed = [
      naming.length > 0 ? watchedIndex(version, channels) : {},
      version.preview === undefined ? {} : previewIndex(version, previews),
    ];
    const result = await main.transact([
      ...removal(item, clock.now()),
      changeHead(
        version,
        head,
        {
          ...(isCurrent && { current: next?.version ?? 0 }),
          ...(isLast && { first_version: head.assigned + 1 }),
          ...(naming.length > 0 && { channels }),
          ...(version.preview !== undefined && { previews }),
        },
        {
          set: Object.assign({}, ...changed.map(({ set }) => set)),
          remove: changed.flatMap(({ remove }) => remove ?? []),
        },
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

/** Operations that delete a version, given its item. They fail if it was changed concurrently. */
function removal(item: Item, now: number): TransactOperation[] {
  const ttl = epochSeconds(now) + DELETION_RETENTION_SECONDS;
  return [
    {
      op: 'update',
      key: { pk: item.pk, sk: item.sk },
      changes: { set: { deleted_at: isoTime(now), ttl }, remove: ['gsi1pk', 'gsi1sk', 'gsi2pk', 'gsi2sk'] },
      condition: sameBuild(item),
    },
    // Each push to a pull request makes a preview, which must not use up the plan for a month.
    deletedVersion(item, item.preview === undefined ? ttl * 1000 : now + PREVIEW_PURGE_MS),
    { op: 'update', key: idKey(item.id as string), changes: { set: { ttl } } },
  ];
}
