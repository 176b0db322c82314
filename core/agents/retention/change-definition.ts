import type { Json } from '#core/base/json.ts';
import type { AgentDefinition } from '#core/manifest/definition.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { publicIndexKey, readVersion, storeDefinition, versionKey } from '../record.ts';
import { sameBuild } from './builds.ts';
import { agentUse, bytesOfVersion, checkRoom, planOfWorkspace, useOperation } from './storage-usage.ts';

/**
 * Replaces the changeable part of a definition. Returns `undefined` if the version was deleted concurrently. Throws
 * STORAGE_QUOTA_EXCEEDED, DOCUMENT_TOO_LARGE.
 */
export async function changeDefinition(
  deps: Pick<Deps, 'main' | 'blobs' | 'clock' | 'config'>,
  version: AgentVersion,
  definition: AgentDefinition,
): Promise<AgentVersion | undefined> {
  const { main, clock } = deps;
  const { workspaceId } = version;
  const key = versionKey(version);
  const plan = await planOfWorkspace(deps, workspaceId);
  const stored = await storeDefinition(deps, version.id, definition);
  const listed = definition.is_public ? publicIndexKey(version.createdAt, version.id) : undefined;
  const { updated } = await retryOnConflict(clock, `the agent version ${version.id}`, async () => {
    const item = await main.get(key);
    if (item === undefined || item.deleted_at !== undefined) return { updated: undefined };
    const growth = { versions: 0, bytes: bytesOfVersion({ ...item, ...stored }) - bytesOfVersion(item) };
    checkRoom(plan, await agentUse(deps, workspaceId), growth);
    const set: Record<string, Json> = {
      updated_at: isoTime(clock.now()),
      definition_bytes: stored.definition_bytes,
      ...(stored.definition !== undefined && { definition: stored.definition }),
      ...listed,
    };
    const remove = [
      ...(stored.definition === undefined ? ['definition'] : []),
      ...(listed ? [] : ['gsi2pk', 'gsi2sk']),
    ];
    const { ok } = await main.transact([
      { op: 'update', key, changes: { set, remove }, condition: sameBuild(item) },
      useOperation(deps, workspaceId, growth, plan),
    ]);
    return ok ? { updated: (await main.get(key))! } : undefined;
  });
  return updated && readVersion(deps, updated);
}
