import { openBytes, sealBytes } from '#core/base/aes-gcm.ts';
import type { Json } from '#core/base/json.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { allOf, anyOf, type Condition, equals, exists, type Item, lessThan, queryAll } from '#core/ports/table.ts';
import type { SignedIn, ToolTokens } from '#core/ports/tool-sign-in.ts';

/** Owner of a connection that all runs of the workspace may use. Other owners are ids of users. */
export const OF_WORKSPACE = 'workspace';
/** Life of an access token whose provider does not say when it expires (RFC 6749, section 5.1). */
const DEFAULT_LIFE_SECONDS = 3600;
/** `last_used_at` is that old at most: each run would write it otherwise. */
const USED_EVERY_MS = 10 * 60_000;

/** Position of a connection. */
export interface ConnectionPlace {
  readonly workspaceId: string;
  readonly name: string;
  /** {@link OF_WORKSPACE}, or the id of a user. */
  readonly owner: string;
}

/**
 * A connection. Main table: `WS#<workspace id> / CONNECTION#<name>#<owner>`. Its tokens are in the item, sealed with a data
 * key of the vault, so that one conditional write replaces them and only the newest are kept.
 */
export interface Connection extends ConnectionPlace {
  /** Address of the MCP server or API. */
  readonly url: string;
  readonly issuer: string;
  readonly scopes: readonly string[];
  readonly state: 'connected' | 'needs_sign_in';
  /** Why it needs a sign-in. */
  readonly problem?: string | undefined;
  /** Epoch milliseconds at which the access token expires. */
  readonly expiresAt: number;
  /** Milliseconds from the token's issue to its expiry. */
  readonly lifeMs: number;
  readonly canRefresh: boolean;
  /** Id of the user who signed in. */
  readonly connectedBy: string;
  readonly connectedAt: string;
  readonly lastUsedAt?: string | undefined;
  /** Another UUID after each change of the tokens. */
  readonly revision: string;
  /** Tokens and grant, encrypted. */
  readonly sealed: { readonly key: string; readonly data: string };
}

/** The secret part of a connection. */
export interface ConnectionSecrets {
  readonly tokens: ToolTokens;
  /** See `SignedIn.grant`. */
  readonly grant: Json;
}

type StoreDeps = Pick<Deps, 'main' | 'vault' | 'clock' | 'ids'>;

const keyOf = ({ workspaceId, name, owner }: ConnectionPlace) => ({
  pk: `WS#${workspaceId}`,
  sk: `CONNECTION#${name}#${owner}`,
});

const sealName = ({ workspaceId, name, owner }: ConnectionPlace): string =>
  `${workspaceId}/connection/${name}/${owner}`;

function fromItem(workspaceId: string, item: Item): Connection {
  return {
    workspaceId,
    name: item.name as string,
    owner: item.owner as string,
    url: item.url as string,
    issuer: item.issuer as string,
    scopes: item.scopes as string[],
    state: item.state as Connection['state'],
    problem: item.problem as string | undefined,
    expiresAt: item.expires_at as number,
    lifeMs: item.life_ms as number,
    canRefresh: item.can_refresh as boolean,
    connectedBy: item.connected_by as string,
    connectedAt: item.connected_at as string,
    lastUsedAt: item.last_used_at as string | undefined,
    revision: item.revision as string,
    sealed: { key: item.sealed_key as string, data: item.data as string },
  };
}

export async function findConnection(
  { main }: Pick<Deps, 'main'>,
  place: ConnectionPlace,
): Promise<Connection | undefined> {
  const item = await main.get(keyOf(place));
  return item && fromItem(place.workspaceId, item);
}

export async function listConnections({ main }: Pick<Deps, 'main'>, workspaceId: string): Promise<Connection[]> {
  const items = queryAll(main, { pk: `WS#${workspaceId}`, sk: { beginsWith: 'CONNECTION#' } });
  return (await Array.fromAsync(items)).map((item) => fromItem(workspaceId, item));
}

export async function openSecrets(
  { vault }: Pick<Deps, 'vault'>,
  connection: Pick<Connection, keyof ConnectionPlace | 'sealed'>,
): Promise<ConnectionSecrets> {
  const { key, data } = connection.sealed;
  const opened = await vault.openDataKey(connection.workspaceId, key);
  return JSON.parse(openBytes(opened, sealName(connection), Buffer.from(data, 'base64')).toString());
}

const seal = (key: Uint8Array, place: ConnectionPlace, secrets: ConnectionSecrets): string =>
  sealBytes(key, sealName(place), Buffer.from(JSON.stringify(secrets))).toString('base64');

/** Members of the item that a new access token changes. */
function timesOf({ clock, ids }: Pick<Deps, 'clock' | 'ids'>, tokens: ToolTokens) {
  const life = Math.max(tokens.expiresIn ?? DEFAULT_LIFE_SECONDS, 1) * 1000;
  return {
    // A token without an expiry and without a way to refresh it may be good for ever: the server will say.
    expires_at: tokens.expiresIn === undefined && tokens.refreshToken === undefined ? NEVER : clock.now() + life,
    life_ms: life,
    can_refresh: tokens.refreshToken !== undefined,
    revision: ids.uuid(),
    state: 'connected',
  };
}

/** Epoch milliseconds of the year 9999. */
const NEVER = 253_370_764_800_000;

/** Stores the tokens of a sign-in, in place of earlier ones. */
export async function putConnection(
  deps: StoreDeps,
  place: ConnectionPlace & { readonly url: string; readonly connectedBy: string },
  { tokens, issuer, grant }: SignedIn,
): Promise<Connection> {
  const { key, sealed: sealed_key } = await deps.vault.newDataKey(place.workspaceId);
  const { workspaceId, name, owner, url, connectedBy: connected_by } = place;
  const item: Item = {
    ...keyOf(place),
    ...{ name, owner, url, issuer, connected_by },
    ...timesOf(deps, tokens),
    scopes: [...(tokens.scopes ?? [])],
    connected_at: isoTime(deps.clock.now()),
    sealed_key,
    data: seal(key, place, { tokens, grant }),
  };
  await deps.main.put(item);
  return fromItem(workspaceId, item);
}

/** Takes the lease of a refresh. Returns false while another process has it, or if the tokens have changed. */
export async function takeLease(
  { main, clock }: Pick<Deps, 'main' | 'clock'>,
  connection: Connection,
  { lease, until }: { readonly lease: string; readonly until: number },
): Promise<boolean> {
  const isFree = anyOf({ op: 'absent', attribute: 'lease_until' }, lessThan('lease_until', clock.now()));
  const condition = allOf(isCurrent(connection), isFree);
  return (await main.update(keyOf(connection), { set: { lease, lease_until: until } }, condition)).ok;
}

export async function releaseLease({ main }: Pick<Deps, 'main'>, connection: Connection, lease: string): Promise<void> {
  await main.update(keyOf(connection), { remove: ['lease', 'lease_until'] }, allOf(exists(), equals('lease', lease)));
}

const isCurrent = ({ revision }: Connection): Condition => equals('revision', revision);

/**
 * Replaces the tokens, unless they were replaced or removed meanwhile: then it returns `undefined`. The condition is the
 * revision and not the lease, so that a slow process does not lose tokens that nobody else has.
 */
export async function replaceTokens(
  deps: StoreDeps,
  connection: Connection,
  { tokens, grant }: ConnectionSecrets,
): Promise<Connection | undefined> {
  const key = await deps.vault.openDataKey(connection.workspaceId, connection.sealed.key);
  const set = {
    ...timesOf(deps, tokens),
    ...(tokens.scopes && { scopes: [...tokens.scopes] }),
    data: seal(key, connection, { tokens, grant }),
  };
  const changes = { set, remove: ['lease', 'lease_until', 'problem'] };
  const written = await deps.main.update(keyOf(connection), changes, isCurrent(connection));
  return written.ok ? fromItem(connection.workspaceId, written.item) : undefined;
}

/** Notes that only a sign-in helps. Returns false if the tokens were replaced or removed meanwhile. */
export async function noteSignInNeeded(
  { main, ids }: Pick<Deps, 'main' | 'ids'>,
  connection: Connection,
  problem: string,
): Promise<boolean> {
  const set = { state: 'needs_sign_in', problem, revision: ids.uuid() };
  const changes = { set, remove: ['lease', 'lease_until'] };
  return (await main.update(keyOf(connection), changes, isCurrent(connection))).ok;
}

export async function noteUse({ main, clock }: Pick<Deps, 'main' | 'clock'>, connection: Connection): Promise<void> {
  const now = clock.now();
  const { lastUsedAt } = connection;
  if (lastUsedAt !== undefined && now - Date.parse(lastUsedAt) < USED_EVERY_MS) return;
  await main.update(keyOf(connection), { set: { last_used_at: isoTime(now) } }, exists());
}

/** Removes a connection with its tokens. */
export async function removeConnection({ main }: Pick<Deps, 'main'>, connection: ConnectionPlace): Promise<void> {
  await main.delete(keyOf(connection));
}
