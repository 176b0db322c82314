import type { KeyScope } from '#core/base/caller.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { exists, type Item, type Key, queryAll } from '#core/ports/table.ts';

/**
 * Connected clients. Main table, with expiry: `USER#<user id> / CLIENT#<connection id>`. It is the family of all tokens that
 * were issued after one consent: none of them outlives it (`docs/interface/client-sign-in.md`).
 */
export interface ConnectedClient {
  readonly id: string;
  readonly userId: string;
  /** Address of the client's metadata document. */
  readonly clientId: string;
  /** What the client calls itself. */
  readonly clientName: string;
  readonly workspaceId: string;
  readonly scope: ClientScope;
  /** Path of the resource. */
  readonly resource: string;
  readonly createdAt: string;
  /** Accurate to ten minutes. */
  readonly lastUsedAt: string | null;
  /** Hash of the only refresh token that is good. */
  readonly refreshHash: string;
}

/** Scopes that clients may ask for. */
export const CLIENT_SCOPES = ['read', 'run', 'manage'] as const satisfies readonly KeyScope[];
export type ClientScope = (typeof CLIENT_SCOPES)[number];

/** A connection ends if its client does not refresh for this long. */
export const IDLE_MS = 30 * 24 * 3_600_000;
/** Resolution of `last_used_at`: a busy client must not cost a write per request. */
const LAST_USED_RESOLUTION_MS = 10 * 60_000;

const PREFIX = 'CLIENT#';
export const connectedClientKey = (userId: string, id: string): Key => ({ pk: `USER#${userId}`, sk: `${PREFIX}${id}` });

const fromItem = (item: Item): ConnectedClient => ({
  id: item.sk.slice(PREFIX.length),
  userId: item.pk.slice('USER#'.length),
  clientId: item.client_id as string,
  clientName: item.client_name as string,
  workspaceId: item.workspace_id as string,
  scope: item.scope as ClientScope,
  resource: item.resource as string,
  createdAt: item.created_at as string,
  lastUsedAt: (item.last_used_at as string | undefined) ?? null,
  refreshHash: item.refresh_hash as string,
});

/** Returns the item of a new connection. */
export const connectedClientItem = (
  { clock }: Pick<Deps, 'clock'>,
  { userId, id, ...connection }: Omit<ConnectedClient, 'createdAt' | 'lastUsedAt'>,
): Item => ({
  ...connectedClientKey(userId, id),
  client_id: connection.clientId,
  client_name: connection.clientName,
  workspace_id: connection.workspaceId,
  scope: connection.scope,
  resource: connection.resource,
  created_at: isoTime(clock.now()),
  refresh_hash: connection.refreshHash,
  ttl: epochSeconds(clock.now() + IDLE_MS),
});

export async function findConnectedClient(
  { main }: Pick<Deps, 'main'>,
  userId: string,
  id: string,
): Promise<ConnectedClient | undefined> {
  const item = await main.get(connectedClientKey(userId, id));
  return item && fromItem(item);
}

/** Lists the connections of a user, oldest first. */
export async function listConnectedClients({ main }: Pick<Deps, 'main'>, userId: string): Promise<ConnectedClient[]> {
  const items = await Array.fromAsync(queryAll(main, { pk: `USER#${userId}`, sk: { beginsWith: PREFIX } }));
  return items.map(fromItem).sort((a, b) => a.createdAt.localeCompare(b.createdAt));
}

/** Records that the client used a token, at most once every ten minutes. */
export async function touchConnectedClient(
  { main, clock }: Pick<Deps, 'main' | 'clock'>,
  { userId, id, lastUsedAt }: ConnectedClient,
): Promise<void> {
  const now = clock.now();
  if (lastUsedAt !== null && now - Date.parse(lastUsedAt) < LAST_USED_RESOLUTION_MS) return;
  await main.update(connectedClientKey(userId, id), { set: { last_used_at: isoTime(now) } }, exists());
}

/** Ends a connection with all its tokens, at once. */
export const endConnectedClient = ({ main }: Pick<Deps, 'main'>, userId: string, id: string): Promise<unknown> =>
  main.delete(connectedClientKey(userId, id));
