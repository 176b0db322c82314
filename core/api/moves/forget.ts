import { listKeys, revokeKey } from '#core/accounts/keys/store.ts';
import { secretNamesOf } from '#core/accounts/secrets/store.ts';
import { userEmailItem } from '#core/accounts/workspaces/emails.ts';
import {
  listMembers,
  listMemberships,
  memberKey,
  userKey,
  workspaceFrom,
  workspaceKey,
} from '#core/accounts/workspaces/store.ts';
import { releaseHolder } from '#core/agents/retention/blobs.ts';
import { SIGNING_NAME } from '#core/outbound/signing.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { exists, type Key } from '#core/ports/table.ts';
import { signingVaultOf } from '#core/ports/vault.ts';
import { HEADERS_SECRET } from '#core/runs/telemetry/store.ts';
import type { MoveDeps } from './freeze.ts';
import { type OwnItem, ownBlobPrefixes, ownItems } from './own-items.ts';

/**
 * Erases a workspace that has moved away, or one that arrived and was never opened. Of one that has moved, its name stays taken,
 * and its record names the other cell. Safe to repeat.
 */
export async function forgetWorkspace(deps: MoveDeps, workspaceId: string): Promise<void> {
  const { main } = deps;
  const item = await main.get(workspaceKey(workspaceId));
  const workspace = item && workspaceFrom(item);
  const state = workspace?.move?.state;
  if (workspace === undefined || (state !== 'moved' && state !== 'arriving')) {
    throw new Error('Only a workspace that has moved away, or that has arrived and is not open, can be erased.');
  }
  await removeSecrets(deps, workspaceId);
  await removePeople(deps, workspaceId);
  let count = 0;
  for await (const own of ownItems(deps, workspaceId)) {
    if (isSignpost(own)) continue;
    await eraseItem(deps, own);
    count += 1;
  }
  for (const prefix of ownBlobPrefixes(workspaceId)) {
    for await (const key of deps.blobs.list(prefix)) await deps.blobs.delete(key);
  }
  const { slug, move } = workspace;
  if (state === 'arriving') {
    await main.transact([
      { op: 'delete', key: workspaceKey(workspaceId) },
      { op: 'delete', key: { pk: `SLUG#${slug}`, sk: 'META' } },
    ]);
  } else {
    const { id, name, type, created_at } = item!;
    await main.put({
      ...workspaceKey(workspaceId),
      id,
      slug,
      name,
      type,
      created_at,
      move: { ...move! },
      owners: 0,
      forgotten: true,
    });
  }
  deps.say(`${count} items of the workspace "${slug}" erased.`);
}

/** The record of the workspace and its slug: they say where it is. */
const isSignpost = ({ kind, item }: OwnItem): boolean =>
  kind.pk === 'SLUG#*' || (kind.pk === 'WS#<ws>' && item.sk === 'META');

/** Deletes an item, and what it alone refers to. */
export async function eraseItem(deps: MoveDeps, { table, kind, item }: OwnItem): Promise<void> {
  const key: Key = { pk: item.pk, sk: item.sk };
  if (kind.pk === 'AGENT#*') {
    for await (const blob of deps.blobs.list(`definitions/${item.pk.slice('AGENT#'.length)}.`))
      await deps.blobs.delete(blob);
  }
  const blob = heldBlob({ table, kind, item });
  if (blob === undefined) {
    await deps[table].delete(key);
    return;
  }
  await retryOnConflict(deps.clock, `the holders of ${blob}`, async () => {
    const released = await releaseHolder(deps, blob);
    const { ok, ...result } = await deps.main.transact([{ op: 'delete', key, condition: exists() }, ...released]);
    return ok || ('failed' in result && (result.failed as readonly number[]).includes(0)) || undefined;
  });
}

/** Returns the key of the blob that an item holds. */
function heldBlob({ kind, item }: OwnItem): string | undefined {
  if (kind.pk === 'WS#<ws>#LAYERS') return item.key as string;
  if (kind.pk === 'WS#<ws>#DELETED') return item.bundle as string | undefined;
  const isLive = item.deleted_at === undefined;
  return isLive ? (item.bundle as { key?: string } | undefined)?.key : undefined;
}

async function removeSecrets({ main, vault }: MoveDeps, workspaceId: string): Promise<void> {
  for (const name of await secretNamesOf({ main }, workspaceId)) await vault.remove(workspaceId, name);
  for (const name of [SIGNING_NAME, HEADERS_SECRET]) await vault.remove(signingVaultOf(workspaceId), name);
}

/** Removes memberships, keys of this workspace, and users without another one. */
async function removePeople(deps: MoveDeps, workspaceId: string): Promise<void> {
  const { main } = deps;
  for (const userId of await listMembers(deps, workspaceId)) {
    const isElsewhere = (await listMemberships(deps, userId)).some(({ workspace }) => workspace.id !== workspaceId);
    for (const { id, limits } of await listKeys(deps, userId)) {
      if (isElsewhere && limits?.workspaceId !== workspaceId) continue;
      await revokeKey(deps, userId, id);
    }
    const user = await main.get(userKey(userId));
    if (!isElsewhere && user !== undefined) {
      const { pk, sk } = userEmailItem({ id: userId, email: user.email as string });
      await main.delete({ pk, sk });
      await main.delete(userKey(userId));
    }
    await main.delete(memberKey(userId, workspaceId));
  }
}
