import { connectionOfSecret } from '#core/base/connection-names.ts';
import { hasCode } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { ToolSignInFailure, ToolTokens } from '#core/ports/tool-sign-in.ts';
import {
  type Connection,
  findConnection,
  noteSignInNeeded,
  noteUse,
  OF_WORKSPACE,
  openSecrets,
  releaseLease,
  replaceTokens,
  takeLease,
} from './store.ts';

export type TokenDeps = Pick<Deps, 'main' | 'vault' | 'clock' | 'ids' | 'log' | 'toolSignIn'>;

/** A token is refreshed that long before it expires, or in the last half of a shorter life. */
const EARLY_MS = 5 * 60_000;
/** Longer than a refresh takes: its request ends after six seconds. */
const LEASE_MS = 30_000;
const POLL_MS = 200;
/** Time to wait for the refresh of another process. */
const PATIENCE_MS = 40_000;
/** Attempts to write tokens that the provider has already replaced. */
const WRITE_ATTEMPTS = 4;
const WRITE_PAUSE_MS = 250;

/** Why a connection has no token now. */
export interface NoToken {
  /** Predicate that follows the name of the connection. */
  readonly problem: string;
  /** Whether only a person can help. */
  readonly needsSignIn: boolean;
  /** Command that helps. @default - the sign-in by the connection's name alone */
  readonly command?: string;
}

interface Asking {
  readonly workspaceId: string;
  /** User whose call began the chain of calls. @default - none: only connections of the workspace are used */
  readonly userId: string | undefined;
  /** Addresses to which the platform sends the token, by secret. They must be where the connection is signed in. */
  readonly places: ReadonlyMap<string, readonly string[]>;
}

export interface FoundTokens {
  /** Access tokens by the names of the secrets. */
  readonly values: Readonly<Record<string, string>>;
  /** Why others are missing, by the names of the secrets. */
  readonly missing: ReadonlyMap<string, NoToken>;
}

/** Returns the access tokens that these secrets stand for, refreshed if they are about to expire. */
export async function tokensOf(deps: TokenDeps, asking: Asking, secrets: readonly string[]): Promise<FoundTokens> {
  const values: Record<string, string> = {};
  const missing = new Map<string, NoToken>();
  await Promise.all(
    secrets.map(async (secret) => {
      const found = await tokenOf(deps, asking, secret);
      if (typeof found === 'string') values[secret] = found;
      else missing.set(secret, found);
    }),
  );
  return { values, missing };
}

async function tokenOf(
  deps: TokenDeps,
  { workspaceId, userId, places }: Asking,
  secret: string,
): Promise<string | NoToken> {
  const name = connectionOfSecret(secret);
  const sentTo = places.get(secret) ?? [];
  const own = userId === undefined ? undefined : await findConnection(deps, { workspaceId, name, owner: userId });
  const connection = own ?? (await findConnection(deps, { workspaceId, name, owner: OF_WORKSPACE }));
  if (connection === undefined) {
    return { problem: 'does not exist', needsSignIn: true, command: `platform connect ${name} ${sentTo[0] ?? 'URL'}` };
  }
  const other = sentTo.find((url) => URL.parse(url)?.origin !== URL.parse(connection.url)?.origin);
  if (other !== undefined) {
    const problem = `is signed in at ${connection.url}, but the manifest would send its token to ${other}`;
    return { problem, needsSignIn: true, command: `platform connect ${name} ${other}` };
  }
  const found = await freshToken(deps, connection);
  if (typeof found === 'string') await noteUse(deps, connection);
  return found;
}

/**
 * Returns the access token of a connection, refreshed if it is about to expire. One process refreshes at a time; the
 * others use the present token while it is valid, and wait afterwards. The new tokens are stored before they are used.
 */
export async function freshToken(deps: TokenDeps, found: Connection): Promise<string | NoToken> {
  const { clock } = deps;
  const until = clock.now() + PATIENCE_MS;
  for (
    let connection: Connection | undefined = found;
    connection;
    connection = await findConnection(deps, connection)
  ) {
    if (connection.state === 'needs_sign_in') {
      return { problem: connection.problem ?? 'has ended', needsSignIn: true };
    }
    if (!isDue(connection, clock.now())) return (await openSecrets(deps, connection)).tokens.accessToken;
    const isValid = connection.expiresAt > clock.now();
    if (!connection.canRefresh) {
      if (isValid) return (await openSecrets(deps, connection)).tokens.accessToken;
      return { problem: 'has expired, and its provider gave nothing to renew it with', needsSignIn: true };
    }
    const lease = { lease: deps.ids.uuid(), until: clock.now() + LEASE_MS };
    if (await takeLease(deps, connection, lease)) {
      const token = await refreshed(deps, connection, lease.lease);
      if (token !== undefined) return token;
    } else {
      if (isValid) return (await openSecrets(deps, connection)).tokens.accessToken;
      if (clock.now() >= until) return { problem: 'is being renewed by another process', needsSignIn: false };
      await clock.sleep(POLL_MS);
    }
  }
  return { problem: 'was removed', needsSignIn: true };
}

const isDue = ({ expiresAt, lifeMs }: Connection, now: number): boolean =>
  expiresAt - now < Math.min(EARLY_MS, lifeMs / 2);

/** Returns `undefined` if the connection has changed meanwhile and is to be read again. */
async function refreshed(
  deps: TokenDeps,
  connection: Connection,
  lease: string,
): Promise<string | NoToken | undefined> {
  const secrets = await openSecrets(deps, connection);
  let tokens: ToolTokens;
  try {
    tokens = await deps.toolSignIn.refresh(secrets.grant, secrets.tokens.refreshToken!);
  } catch (error) {
    if (!hasCode(error, 'TOOL_SIGN_IN_FAILED')) throw error;
    const { kind, message } = error as ToolSignInFailure;
    const { workspaceId, name } = connection;
    deps.log.warn('a connection could not be refreshed', { workspace_id: workspaceId, connection: name, kind });
    if (kind === 'refused') {
      const problem = `has ended: ${hostOf(connection)}, asked to renew it, said that ${message}`;
      // Another process that was slow may have replaced the tokens, for which the refusal does not count.
      return (await noteSignInNeeded(deps, connection, problem)) ? { problem, needsSignIn: true } : undefined;
    }
    await releaseLease(deps, connection, lease);
    if (connection.expiresAt > deps.clock.now()) return secrets.tokens.accessToken;
    return { problem: `cannot be renewed now: ${hostOf(connection)} has a problem, ${message}`, needsSignIn: false };
  }
  const kept = { refreshToken: secrets.tokens.refreshToken, ...tokens };
  const written = await persistently(deps, () =>
    replaceTokens(deps, connection, { tokens: kept, grant: secrets.grant }),
  );
  if (written !== undefined) return tokens.accessToken;
  if ((await findConnection(deps, connection)) === undefined) {
    // It was removed during the refresh, which revoked the tokens before.
    await deps.toolSignIn.revoke(secrets.grant, kept).catch(() => false);
  }
  return undefined;
}

/** Repeats a write that failed: the provider may accept the former refresh token no longer. */
async function persistently<T>({ clock }: Pick<Deps, 'clock'>, write: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await write();
    } catch (error) {
      if (attempt === WRITE_ATTEMPTS) throw error;
      await clock.sleep(WRITE_PAUSE_MS * attempt);
    }
  }
}

const hostOf = ({ issuer }: Connection): string => URL.parse(issuer)?.host ?? 'its provider';
