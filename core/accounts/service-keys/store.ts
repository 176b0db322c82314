import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, equals, exists, getAll, type Item, queryAll } from '#core/ports/table.ts';
import { hashKey, prefixOf } from '../keys/key-format.ts';
import { newStaticKey } from './key-format.ts';

/**
 * Main table: `AGENTKEY#<hash> / META` is a static key of an agent, looked up by the hash of the key in a request;
 * `WS#<workspace id>#AGENT#<name> / KEY#<key id>` lists it under its agent.
 */
export interface StaticKey {
  readonly id: string;
  readonly workspaceId: string;
  readonly agentName: string;
  /** The first 12 characters. */
  readonly prefix: string;
  readonly createdAt: string;
  readonly lastUsedAt: string | null;
  readonly hash: string;
}

/** The agent that a key belongs to, with all its versions. */
export interface KeyOwner {
  readonly workspaceId: string;
  readonly agentName: string;
}

/** Resolution of `last_used_at`: a busy key must not cost a write per request. */
const LAST_USED_RESOLUTION_MS = 10 * 60_000;

const itemKey = (hash: string) => ({ pk: `AGENTKEY#${hash}`, sk: 'META' });
const partitionOf = ({ workspaceId, agentName }: KeyOwner): string => `WS#${workspaceId}#AGENT#${agentName}`;
const listKey = (owner: KeyOwner, keyId: string) => ({ pk: partitionOf(owner), sk: `KEY#${keyId}` });

function fromItem(item: Item): StaticKey {
  return {
    id: item.id as string,
    workspaceId: item.workspace_id as string,
    agentName: item.agent_name as string,
    prefix: item.prefix as string,
    createdAt: item.created_at as string,
    lastUsedAt: (item.last_used_at as string | undefined) ?? null,
    hash: item.hash as string,
  };
}

export async function findStaticKey({ main }: Pick<Deps, 'main'>, hash: string): Promise<StaticKey | undefined> {
  const item = await main.get(itemKey(hash));
  return item && fromItem(item);
}

/** Records that the key was used, at most once every ten minutes. */
export async function touchStaticKey({ main, clock }: Pick<Deps, 'main' | 'clock'>, key: StaticKey): Promise<void> {
  const now = clock.now();
  if (key.lastUsedAt !== null && now - Date.parse(key.lastUsedAt) < LAST_USED_RESOLUTION_MS) return;
  await main.update(itemKey(key.hash), { set: { last_used_at: isoTime(now) } }, exists());
}

/** Creates a key and returns it. It is stored hashed and cannot be shown again. */
export async function createStaticKey(
  { main, clock, ids }: Pick<Deps, 'main' | 'clock' | 'ids'>,
  owner: KeyOwner,
): Promise<{ key: string; prefix: string }> {
  const key = newStaticKey(ids);
  const [hash, prefix, id] = [hashKey(key), prefixOf(key), ids.uuid()];
  const item: Item = {
    ...itemKey(hash),
    id,
    workspace_id: owner.workspaceId,
    agent_name: owner.agentName,
    prefix,
    created_at: isoTime(clock.now()),
    hash,
  };
  await main.transact([
    { op: 'put', item, condition: absent() },
    { op: 'put', item: { ...listKey(owner, id), hash } },
  ]);
  return { key, prefix };
}

/** Oldest first. */
export async function listStaticKeys({ main }: Pick<Deps, 'main'>, owner: KeyOwner): Promise<StaticKey[]> {
  const hashes: string[] = [];
  for await (const item of queryAll(main, { pk: partitionOf(owner), sk: { beginsWith: 'KEY#' } })) {
    hashes.push(item.hash as string);
  }
  const items = await getAll(main, hashes.map(itemKey));
  const keys = items.filter((item) => item !== undefined).map(fromItem);
  return keys.sort((a, b) => a.createdAt.localeCompare(b.createdAt));
}

/** Revokes a key: once this returns, the key is invalid. Returns false if the agent has no such key. */
export async function revokeStaticKey({ main }: Pick<Deps, 'main'>, owner: KeyOwner, keyId: string): Promise<boolean> {
  const listed = await main.get(listKey(owner, keyId));
  if (listed === undefined) return false;
  const hash = listed.hash as string;
  const result = await main.transact([
    { op: 'delete', key: itemKey(hash) },
    { op: 'delete', key: listKey(owner, keyId), condition: equals('hash', hash) },
  ]);
  return result.ok;
}

/** Revokes all keys of a deleted agent: a new agent of the same name must not inherit them. */
export async function revokeAllStaticKeys(deps: Pick<Deps, 'main'>, owner: KeyOwner): Promise<void> {
  for (const { id } of await listStaticKeys(deps, owner)) await revokeStaticKey(deps, owner, id);
}
