import { hash } from 'node:crypto';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { newToken } from '#core/ports/ids.ts';
import { absent, allOf, equals, exists, type TransactOperation } from '#core/ports/table.ts';
import { hashKey, isKey } from '../keys/key-format.ts';
import { findKeyOrToken, newClientToken } from '../keys/store.ts';
import { findMembership, findPersonalWorkspace } from '../workspaces/store.ts';
import {
  type ClientScope,
  type ConnectedClient,
  connectedClientItem,
  connectedClientKey,
  endConnectedClient,
  findConnectedClient,
  IDLE_MS,
} from './connected-client.ts';
import { codeKey } from './requests.ts';

/** A refusal in the words of OAuth (RFC 6749, section 5.2; RFC 8707, section 2). */
export class OAuthError extends Error {
  readonly code: 'invalid_request' | 'invalid_grant' | 'invalid_target' | 'invalid_scope' | 'unsupported_grant_type';

  constructor(code: OAuthError['code'], message: string) {
    super(message);
    this.code = code;
  }
}

type TokenDeps = Pick<Deps, 'main' | 'clock' | 'ids'>;

export const ACCESS_LIFE_MS = 3_600_000;

/** Refresh tokens. Main table, with expiry: `REFRESHTOKEN#<hash> / META` names the connection, also after it was used. */
const refreshKey = (tokenHash: string) => ({ pk: `REFRESHTOKEN#${tokenHash}`, sk: 'META' });

export interface Issued {
  readonly accessToken: string;
  readonly refreshToken: string;
  readonly scope: ClientScope;
}

type Grant = Pick<ConnectedClient, 'id' | 'userId' | 'clientId' | 'clientName' | 'workspaceId' | 'scope' | 'resource'>;

/** Returns new tokens for a connection, and the writes that make them valid. The caller adds the write of the connection. */
async function newTokens(deps: TokenDeps, grant: Grant, scope = grant.scope) {
  const personalWorkspace = await findPersonalWorkspace(deps, grant.userId);
  const { token: accessToken, operation } = newClientToken(
    deps,
    { userId: grant.userId, personalWorkspace },
    {
      name: grant.clientName,
      scope,
      workspaceId: grant.workspaceId,
      client: { connectionId: grant.id, resource: grant.resource },
    },
    ACCESS_LIFE_MS,
  );
  const refreshToken = newToken(deps.ids);
  const refreshHash = hashKey(refreshToken);
  const item = {
    ...refreshKey(refreshHash),
    user_id: grant.userId,
    connection_id: grant.id,
    ttl: epochSeconds(deps.clock.now() + IDLE_MS),
  };
  const operations: TransactOperation[] = [operation, { op: 'put', item, condition: absent() }];
  return { issued: { accessToken, refreshToken, scope } satisfies Issued, refreshHash, operations };
}

const badCode = (): OAuthError =>
  new OAuthError('invalid_grant', 'The code is wrong, already used or expired, or belongs to another request.');

export interface CodeExchange {
  readonly code: string;
  readonly verifier: string;
  readonly clientId: string;
  readonly redirectUri: string;
  /** Path of the resource. @default - that of the request */
  readonly resource?: string | undefined;
}

/**
 * Exchanges a code for tokens, once; a wrong attempt uses it up. A replay ends the connection that was made with it. Throws
 * {@link OAuthError}.
 *
 * @param also Returns further writes, such as the audit entry.
 */
export async function exchangeCode(
  deps: TokenDeps,
  { code, verifier, clientId, redirectUri, resource }: CodeExchange,
  also: (grant: Grant) => TransactOperation[] = () => [],
): Promise<Issued> {
  const key = codeKey(code);
  const item = await deps.main.get(key);
  if (item === undefined) throw badCode();
  const grant: Grant = {
    id: item.connection_id as string,
    userId: item.user_id as string,
    clientId: item.client_id as string,
    clientName: item.client_name as string,
    workspaceId: item.workspace_id as string,
    scope: item.scope as ClientScope,
    resource: item.resource as string,
  };
  const isSound =
    (item.expires as number) > deps.clock.now() &&
    grant.clientId === clientId &&
    item.redirect_uri === redirectUri &&
    /^[\w.~-]{43,128}$/.test(verifier) &&
    hash('sha256', verifier, 'base64url') === item.challenge;
  const isMember = (await findMembership(deps, grant.userId, grant.workspaceId)) !== undefined;
  const use: TransactOperation = {
    op: 'update',
    key,
    changes: { set: { used: true } },
    condition: allOf(exists(), absent('used')),
  };
  if (!isSound || !isMember || (resource !== undefined && resource !== grant.resource)) {
    const wasFirst = await deps.main.transact([use]);
    if (!wasFirst.ok) await endConnectedClient(deps, grant.userId, grant.id);
    if (isSound && isMember) throw new OAuthError('invalid_target', 'resource: the code is for another resource.');
    throw badCode();
  }
  const { issued, refreshHash, operations } = await newTokens(deps, grant);
  const connection = connectedClientItem(deps, { ...grant, refreshHash });
  const made = await deps.main.transact([
    use,
    { op: 'put', item: connection, condition: absent() },
    ...operations,
    ...also(grant),
  ]);
  if (made.ok) return issued;
  await endConnectedClient(deps, grant.userId, grant.id);
  throw badCode();
}

const badRefresh = (): OAuthError =>
  new OAuthError('invalid_grant', 'The refresh token is wrong, already used or expired: sign in again.');

export interface Refresh {
  readonly refreshToken: string;
  readonly clientId: string;
  readonly resource?: string | undefined;
  /** A narrower scope for the access token. */
  readonly scope?: ClientScope | undefined;
}

/** Exchanges a refresh token for new tokens, once: its reuse ends the connection. Throws {@link OAuthError}. */
export async function refresh(deps: TokenDeps, asked: Refresh): Promise<Issued> {
  const tokenHash = hashKey(asked.refreshToken);
  const connection = await connectionOf(deps, tokenHash);
  if (connection === undefined || connection.clientId !== asked.clientId) throw badRefresh();
  const { userId, id } = connection;
  const isMember = (await findMembership(deps, userId, connection.workspaceId)) !== undefined;
  if (connection.refreshHash !== tokenHash || !isMember) {
    await endConnectedClient(deps, userId, id);
    throw badRefresh();
  }
  if (asked.resource !== undefined && asked.resource !== connection.resource) {
    throw new OAuthError('invalid_target', 'resource: the refresh token is for another resource.');
  }
  const ORDER: readonly ClientScope[] = ['read', 'run', 'manage'];
  if (asked.scope !== undefined && ORDER.indexOf(asked.scope) > ORDER.indexOf(connection.scope)) {
    throw new OAuthError('invalid_scope', `scope: the user gave "${connection.scope}".`);
  }
  const { issued, refreshHash, operations } = await newTokens(deps, connection, asked.scope);
  const made = await deps.main.transact([
    {
      op: 'update',
      key: connectedClientKey(userId, id),
      changes: { set: { refresh_hash: refreshHash, ttl: epochSeconds(deps.clock.now() + IDLE_MS) } },
      condition: equals('refresh_hash', tokenHash),
    },
    ...operations,
  ]);
  if (made.ok) return issued;
  await endConnectedClient(deps, userId, id);
  throw badRefresh();
}

async function connectionOf(deps: Pick<Deps, 'main'>, tokenHash: string): Promise<ConnectedClient | undefined> {
  const item = await deps.main.get(refreshKey(tokenHash));
  return item && findConnectedClient(deps, item.user_id as string, item.connection_id as string);
}

/** Ends the connection of a token of this client, whatever its kind; other tokens are nothing (RFC 7009, section 2.2). */
export async function revoke(deps: Pick<Deps, 'main'>, token: string, clientId: string | undefined): Promise<void> {
  const tokenHash = hashKey(token);
  const access = isKey(token) ? await findKeyOrToken(deps, tokenHash) : undefined;
  const connection = access?.client
    ? await findConnectedClient(deps, access.userId, access.client.connectionId)
    : await connectionOf(deps, tokenHash);
  if (connection === undefined || (clientId !== undefined && clientId !== connection.clientId)) return;
  await endConnectedClient(deps, connection.userId, connection.id);
}
