import { revokeAllStaticKeys } from '#core/accounts/service-keys/store.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, allOf, equals, exists, type TransactOperation } from '#core/ports/table.ts';
import { untilWritten } from '#core/ports/until-written.ts';
import type { AgentDefinition } from './definition.ts';
import type { AgentListeners } from './listeners.ts';
import {
  type Head,
  headKey,
  idKey,
  newVersionItem,
  readHead,
  readVersion,
  storeDefinition,
  type VersionState,
  versionKey,
} from './record.ts';
import { AgentStore } from './store.ts';
import type { AgentVersion } from './version.ts';

/** See `docs/interface/agents.md#deletion`. */
const DELETION_RETENTION_SECONDS = 30 * 24 * 3600;

/** Every change here to an agent's current version tells the listeners. */
export type PublishDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'> & { readonly listeners: AgentListeners };

/** An agent: all versions of one name in one workspace. */
type Agent = Pick<AgentVersion, 'workspaceId' | 'name'>;

/**
 * Publishes the next version of `definition.name` in `workspace`; a runnable one is current at once. Version numbers have
 * no gap and no double, also when several processes publish at once. The number of a deleted version is never assigned
 * again, so that an address never changes its meaning.
 */
export async function publish(
  deps: PublishDeps,
  workspace: Workspace,
  definition: AgentDefinition,
  state: VersionState,
): Promise<AgentVersion> {
  const { main, clock, ids } = deps;
  const { name } = definition;
  const id = ids.uuid();
  const stored = await storeDefinition(deps, id, definition);
  const agent: Agent = { workspaceId: workspace.id, name };

  const published = await untilWritten(clock, `the agent ${name}`, async () => {
    const head = await readHead(deps, workspace.id, name);
    const version = head.assigned + 1;
    const now = isoTime(clock.now());
    const item = newVersionItem(
      { id, workspace, name, version },
      { ...state, isPublic: definition.is_public, definition: stored, now },
    );
    const result = await main.transact([
      { op: 'put', item, condition: absent() },
      { op: 'put', item: { ...idKey(id), workspace_id: workspace.id, name, version } },
      changeHead(agent, head, { assigned: version, ...(state.runnable && { current: version }) }),
      ...(state.runnable ? supersede(agent, head.current, now) : []),
    ]);
    return result.ok ? readVersion(deps, item) : undefined;
  });
  if (state.runnable) await deps.listeners.currentVersionChanged(agent);
  return published;
}

/** Makes a version runnable and, unless a newer one is current, current. Safe to repeat, and for a deleted version. */
export async function makeCurrent(deps: PublishDeps, version: AgentVersion): Promise<void> {
  const { main, clock } = deps;
  const { workspaceId, name } = version;
  await untilWritten(clock, `the agent ${name}`, async () => {
    // In this order: the version is then at least as new as the head.
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
  await deps.listeners.currentVersionChanged(version);
}

/**
 * Soft-deletes versions of one agent, in this order: nothing finds them any more, and after 30 days they are gone. The
 * newest runnable version that is left becomes current. The agent's service keys go with its last version.
 */
export async function removeVersions(
  deps: PublishDeps,
  agent: Agent,
  versions: readonly AgentVersion[],
): Promise<void> {
  const { workspaceId, name } = agent;
  for (const version of versions) await removeVersion(deps, version);
  if ((await new AgentStore(deps, workspaceId).listVersions(name)).length === 0) {
    await revokeAllStaticKeys(deps, { workspaceId, agentName: name });
  }
  await deps.listeners.currentVersionChanged(agent);
}

async function removeVersion(deps: Omit<PublishDeps, 'listeners'>, version: AgentVersion): Promise<void> {
  const { main, clock } = deps;
  const { workspaceId, name } = version;
  await untilWritten(clock, `the agent ${name}`, async () => {
    const head = await readHead(deps, workspaceId, name);
    const isCurrent = head.current === version.version;
    const live = await new AgentStore(deps, workspaceId).listVersions(name);
    const next = isCurrent ? live.findLast((other) => other.runnable && other.version !== version.version) : undefined;
    const now = clock.now();
    const ttl = epochSeconds(now) + DELETION_RETENTION_SECONDS;
    const result = await main.transact([
      {
        op: 'update',
        key: versionKey(version),
        changes: { set: { deleted_at: isoTime(now), ttl }, remove: ['gsi1pk', 'gsi1sk', 'gsi2pk', 'gsi2sk'] },
        condition: allOf(exists(), absent('deleted_at')),
      },
      { op: 'update', key: idKey(version.id), changes: { set: { ttl } } },
      changeHead(version, head, isCurrent ? { current: next?.version ?? 0 } : {}),
      ...(next ? [{ op: 'update' as const, key: versionKey(next), changes: { remove: ['superseded_at'] } }] : []),
    ]);
    // Operation 0 fails for a version that was deleted already.
    return result.ok || result.failed.includes(0) || undefined;
  });
}

/** Fails when the agent's versions were changed after `head` was read. */
function changeHead({ workspaceId, name }: Agent, { revision }: Head, set: Partial<Head>): TransactOperation {
  return {
    op: 'update',
    key: headKey(workspaceId, name),
    changes: { set: { ...set, revision: revision + 1 } },
    condition: revision === 0 ? absent('revision') : equals('revision', revision),
  };
}

/** The write that marks the former current version as superseded. */
function supersede({ workspaceId, name }: Agent, current: number, at: string): TransactOperation[] {
  if (current === 0) return [];
  const key = versionKey({ workspaceId, name, version: current });
  return [{ op: 'update', key, changes: { set: { superseded_at: at } } }];
}
