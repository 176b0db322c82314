import type { KeyLimits, KeyScope, TrustCaller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, equals, exists, getAll, type Item, queryAll, type TransactOperation } from '#core/ports/table.ts';
import { findMembership, workspaceFrom, workspaceMembers } from '../workspaces/store.ts';
import { hashKey, newKey, prefixOf } from './key-format.ts';

/**
 * Main table: `KEY#<hash> / META` is the key, looked up by the hash of the key in a request; `USER#<id> / KEY#<key id>`
 * lists it under its user. The key holds a copy of the personal workspace, so a request for that workspace costs one
 * read.
 */
export interface ApiKey {
  readonly id: string;
  readonly userId: string;
  /** Workspace that always has this user as an owner. */
  readonly personalWorkspace: Workspace;
  /** @default - none */
  readonly limits?: KeyLimits;
  readonly name: string;
  /** The first 12 characters. */
  readonly prefix: string;
  readonly createdAt: string;
  readonly lastUsedAt: string | null;
  readonly hash: string;
  /** Whether a command line got it by signing in: signing out revokes it. */
  readonly isOfSignIn: boolean;
  /** Present for the access token of a connected client, which {@link findKey} never returns. */
  readonly client?: TokenClient;
  /** Present for a key of a trust, which {@link findKey} never returns: no user can sign in with it. */
  readonly trust?: TrustCaller;
}

/** What binds an access token (`docs/interface/client-sign-in.md`). The token is not listed under its user. */
export interface TokenClient {
  readonly connectionId: string;
  /** Path of the only resource that the token is for, such as `/mcp`. */
  readonly resource: string;
}

/** Resolution of `last_used_at`: a busy key must not cost a write per request. */
const LAST_USED_RESOLUTION_MS = 10 * 60_000;

const keyItemKey = (hash: string) => ({ pk: `KEY#${hash}`, sk: 'META' });
const listItemKey = (userId: string, keyId: string) => ({ pk: `USER#${userId}`, sk: `KEY#${keyId}` });

/**
 * Keys parsed from items that a table shares between readers. These items are frozen, and every change of a key creates
 * a new item.
 */
const keys = new WeakMap<Item, ApiKey>();

function fromItem(item: Item): ApiKey {
  const known = keys.get(item);
  if (known) return known;
  const key = newFrom(item);
  if (Object.isFrozen(item)) keys.set(item, Object.freeze(key));
  return key;
}

function newFrom(item: Item): ApiKey {
  return {
    id: item.id as string,
    userId: item.user_id as string,
    personalWorkspace: workspaceFrom(item.workspace as Record<string, Json>),
    ...limitsFrom(item),
    name: item.name as string,
    prefix: item.prefix as string,
    createdAt: item.created_at as string,
    lastUsedAt: (item.last_used_at as string | undefined) ?? null,
    hash: item.hash as string,
    isOfSignIn: item.of_sign_in === true,
    ...(item.connection_id !== undefined && {
      client: { connectionId: item.connection_id as string, resource: item.resource as string },
    }),
    ...(item.trust !== undefined && { trust: item.trust as unknown as TrustCaller }),
  };
}

function limitsFrom({ scope, workspace_id, expires_at, agents, previews_only }: Item): Pick<ApiKey, 'limits'> {
  if (scope === undefined && workspace_id === undefined && expires_at === undefined) return {};
  const limits = { scope: scope as KeyScope, workspaceId: workspace_id as string, expiresAt: expires_at as string };
  return {
    limits: {
      ...{ ...limits, ...(agents !== undefined && { agents: agents as string[] }) },
      ...(previews_only === true && { previewsOnly: true as const }),
    },
  };
}

/** Finds a user's key; `undefined` for an access token and a key of a trust, which can neither sign in nor create keys. */
export async function findKey(deps: Pick<Deps, 'main'>, hash: string): Promise<ApiKey | undefined> {
  const key = await findKeyOrToken(deps, hash);
  return key?.client || key?.trust ? undefined : key;
}

export async function findKeyOrToken({ main }: Pick<Deps, 'main'>, hash: string): Promise<ApiKey | undefined> {
  const item = await main.get(keyItemKey(hash));
  if (item === undefined || item.workspace !== undefined) return item && fromItem(item);
  // Keys of version 0.1.0 hold only the id.
  const membership = await findMembership({ main }, item.user_id as string, item.personal_workspace_id as string);
  return membership && fromItem({ ...item, workspace: workspaceMembers(membership.workspace) });
}

/** Finds a user's key by its id. */
export async function findKeyOf(
  { main }: Pick<Deps, 'main'>,
  userId: string,
  keyId: string,
): Promise<ApiKey | undefined> {
  const listed = await main.get(listItemKey(userId, keyId));
  return listed && findKey({ main }, listed.hash as string);
}

/** Throws UNAUTHORIZED for a missing or expired key. */
export function checkUsable({ clock }: Pick<Deps, 'clock'>, key: ApiKey | undefined): asserts key is ApiKey {
  if (key === undefined) throw new PlatformError('UNAUTHORIZED', 'The API key is not valid, or it was revoked.');
  const expiresAt = key.limits?.expiresAt;
  if (expiresAt !== undefined && Date.parse(expiresAt) <= clock.now()) {
    throw new PlatformError('UNAUTHORIZED', `The API key expired at ${expiresAt}: create another.`);
  }
}

/** Records that the key was used, at most once every ten minutes. */
export async function touchKey({ main, clock }: Pick<Deps, 'main' | 'clock'>, key: ApiKey): Promise<void> {
  const now = clock.now();
  if (key.lastUsedAt !== null && now - Date.parse(key.lastUsedAt) < LAST_USED_RESOLUTION_MS) return;
  await main.update(keyItemKey(key.hash), { set: { last_used_at: isoTime(now) } }, exists());
}

export interface NewKey {
  /** The key itself: show it once. */
  readonly key: string;
  readonly record: ApiKey;
  /** Writes that create it. */
  readonly operations: TransactOperation[];
}

export function newApiKey(
  { clock, ids }: Pick<Deps, 'clock' | 'ids'>,
  owner: { userId: string; personalWorkspace: Workspace },
  name: string,
  { scope, workspaceId, expiresAt, isOfSignIn = false }: KeyLimits & { readonly isOfSignIn?: boolean } = {},
): NewKey {
  const key = newKey(ids);
  const hash = hashKey(key);
  const id = ids.uuid();
  const item: Item = {
    ...keyItemKey(hash),
    id,
    user_id: owner.userId,
    workspace: workspaceMembers(owner.personalWorkspace),
    name,
    prefix: prefixOf(key),
    created_at: isoTime(clock.now()),
    hash,
    ...(scope !== undefined && scope !== 'manage' && { scope }),
    ...(workspaceId !== undefined && { workspace_id: workspaceId }),
    ...(expiresAt !== undefined && { expires_at: expiresAt }),
    ...(isOfSignIn && { of_sign_in: true }),
  };
  return {
    key,
    record: fromItem(item),
    operations: [
      { op: 'put', item, condition: absent() },
      { op: 'put', item: { ...listItemKey(owner.userId, id), hash } },
    ],
  };
}

async function listHashes({ main }: Pick<Deps, 'main'>, userId: string): Promise<string[]> {
  const listed = queryAll(main, { pk: `USER#${userId}`, sk: { beginsWith: 'KEY#' } });
  return (await Array.fromAsync(listed)).map((item) => item.hash as string);
}

/** Updates the copies of a personal workspace in its user's keys. */
export async function updateKeyWorkspaces(
  { main }: Pick<Deps, 'main'>,
  userId: string,
  personalWorkspace: Workspace,
): Promise<void> {
  for (const hash of await listHashes({ main }, userId)) {
    await main.update(keyItemKey(hash), { set: { workspace: workspaceMembers(personalWorkspace) } }, exists());
  }
}

export async function listKeys({ main }: Pick<Deps, 'main'>, userId: string): Promise<ApiKey[]> {
  const hashes = await listHashes({ main }, userId);
  const items = await getAll(main, hashes.map(keyItemKey));
  const keys = items.filter((item) => item !== undefined).map(fromItem);
  return keys.sort((a, b) => a.createdAt.localeCompare(b.createdAt));
}

/**
 * Creates an access token of a connected client, and the write that makes it valid. Its id is that of the connection,
 * which the token does not outlive.
 */
export function newClientToken(
  { clock, ids }: Pick<Deps, 'clock' | 'ids'>,
  owner: { readonly userId: string; readonly personalWorkspace: Workspace },
  {
    name,
    scope,
    workspaceId,
    client,
  }: Required<Pick<KeyLimits, 'scope' | 'workspaceId'>> & { name: string; client: TokenClient },
  lifeMs: number,
): { readonly token: string; readonly operation: TransactOperation } {
  const token = newKey(ids);
  const hash = hashKey(token);
  const expires = clock.now() + lifeMs;
  const item: Item = {
    ...keyItemKey(hash),
    id: client.connectionId,
    user_id: owner.userId,
    workspace: workspaceMembers(owner.personalWorkspace),
    name,
    prefix: prefixOf(token),
    created_at: isoTime(clock.now()),
    hash,
    scope,
    workspace_id: workspaceId,
    expires_at: isoTime(expires),
    connection_id: client.connectionId,
    resource: client.resource,
    ttl: epochSeconds(expires),
  };
  return { token, operation: { op: 'put', item, condition: absent() } };
}

/**
 * Creates a key of a trust, and the write that makes it valid. It is listed under no user, and ends with its trust.
 */
export function newTrustKey(
  { clock, ids }: Pick<Deps, 'clock' | 'ids'>,
  {
    trust,
    workspace,
    agents,
    previewsOnly,
  }: { trust: TrustCaller; workspace: Workspace } & Pick<KeyLimits, 'agents' | 'previewsOnly'>,
  expires: number,
): { readonly key: string; readonly record: ApiKey; readonly operation: TransactOperation } {
  const key = newKey(ids);
  const hash = hashKey(key);
  const item: Item = {
    ...keyItemKey(hash),
    id: ids.uuid(),
    user_id: trustUserId(trust.id),
    workspace: workspaceMembers(workspace),
    name: `trust ${trust.id}`,
    prefix: prefixOf(key),
    created_at: isoTime(clock.now()),
    hash,
    scope: 'publish',
    workspace_id: workspace.id,
    expires_at: isoTime(expires),
    trust: { ...trust, claims: { ...trust.claims } },
    ...(agents !== undefined && { agents: [...agents] }),
    ...(previewsOnly && { previews_only: true }),
    ttl: epochSeconds(expires),
  };
  return { key, record: fromItem(item), operation: { op: 'put', item, condition: absent() } };
}

/** Returns what stands in place of a user's id for a trust; `''`: for none. */
export const trustUserId = (trustId: string): string => `${TRUST_USER}${trustId}`;
export const TRUST_USER = 'trust:';

/** Revokes a key: once this returns, the key is invalid. Returns false if the user has no such key. */
export async function revokeKey({ main }: Pick<Deps, 'main'>, userId: string, keyId: string): Promise<boolean> {
  const listed = await main.get(listItemKey(userId, keyId));
  if (listed === undefined) return false;
  const result = await main.transact([
    { op: 'delete', key: keyItemKey(listed.hash as string) },
    { op: 'delete', key: listItemKey(userId, keyId), condition: equals('hash', listed.hash as string) },
  ]);
  return result.ok;
}
