import { hash } from 'node:crypto';
import type { KeyLimits } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { entryOperation, type RequestOrigin } from '../audit/log.ts';
import { type ApiKey, checkUsable, findKey, newApiKey } from '../keys/store.ts';
import { findPersonalWorkspace, findWorkspace, listMemberships } from '../workspaces/store.ts';
import { consumeToken, newSecret, readToken } from './one-time-tokens.ts';

/**
 * A command line requests a key, a user approves on a page, and the command line exchanges a one-time token for the key
 * (`docs/interface/sign-in.md#command-lines`). The key is created last, so that it is never stored.
 */
type CliDeps = Pick<Deps, 'main' | 'counters' | 'clock' | 'ids'>;

const REQUEST_LIFE_MS = 10 * 60_000;
/** Programs fetch the key immediately. */
const TOKEN_LIFE_MS = 60_000;
/** Users have to copy the token. */
const SHOWN_TOKEN_LIFE_MS = 10 * 60_000;

/** A command line's request for a key. Except for address and time, its content is unverified. */
export interface CliRequest {
  /** Port on which the command line listens on its machine. @default - the user copies the token */
  readonly redirectPort?: number;
  /** SHA-256 of its verifier, in base64url (RFC 7636, section 4.2, S256). @default - no verifier is required */
  readonly codeChallenge?: string;
  /** Names of the program and its machine. */
  readonly clientName?: string;
  /** Slug or id of the only workspace that the key is for. @default - the workspaces of the user's own key */
  readonly workspace?: string;
  /** Address of the sender, if the host knows it. */
  readonly address?: string;
  readonly createdAt: string;
}

export async function askForKey(deps: CliDeps, asked: Omit<CliRequest, 'createdAt'>) {
  const request = { ...asked, createdAt: isoTime(deps.clock.now()) };
  const content = JSON.parse(JSON.stringify({ request }));
  const { secret: state, expires, operation } = newSecret(deps, 'CLIREQUEST', content, REQUEST_LIFE_MS);
  await deps.counters.transact([operation]);
  return { state, expires };
}

/** Finds the request with this state; `undefined` if it was answered or has expired. */
export async function findRequest(deps: Pick<Deps, 'counters'>, state: string): Promise<CliRequest | undefined> {
  return (await readToken(deps, 'CLIREQUEST', state))?.request as CliRequest | undefined;
}

export async function refuseRequest(deps: Pick<Deps, 'counters'>, state: string): Promise<void> {
  await consumeToken(deps, 'CLIREQUEST', state);
}

/**
 * Approves a request as the user of `key`, and returns the token for the new key, which has at most the rights of
 * `key`. Throws FORBIDDEN if the user is not a member of the requested workspace, and NOT_FOUND if the request was
 * answered in the meantime.
 */
export async function agree(deps: CliDeps, state: string, request: CliRequest, key: ApiKey): Promise<string> {
  const workspace = await workspaceFor(deps, request, key);
  const content = {
    key_hash: key.hash,
    name: `command line${request.clientName === undefined ? '' : ` (${request.clientName})`}`.slice(0, 100),
    ...(workspace !== undefined && { workspace_id: workspace.id }),
    ...(request.codeChallenge !== undefined && { code_challenge: request.codeChallenge }),
  };
  const life = request.redirectPort === undefined ? SHOWN_TOKEN_LIFE_MS : TOKEN_LIFE_MS;
  const { secret: token, operation } = newSecret(deps, 'CLITOKEN', content, life);
  if ((await consumeToken(deps, 'CLIREQUEST', state, [operation])) === undefined) throw goneRequest();
  return token;
}

export const goneRequest = (): PlatformError =>
  new PlatformError('NOT_FOUND', 'This sign-in was already answered or has expired.', {
    hint: 'Run `platform login` again.',
  });

/** Returns the only workspace that the new key is for. */
async function workspaceFor(deps: CliDeps, { workspace }: CliRequest, key: ApiKey): Promise<Workspace | undefined> {
  const own = key.limits?.workspaceId;
  if (workspace === undefined) return own === undefined ? undefined : findWorkspace(deps, own);
  const memberships = await listMemberships(deps, key.userId);
  const found = memberships.find(({ workspace: { id, slug } }) => id === workspace || slug === workspace)?.workspace;
  if (found !== undefined && (own === undefined || own === found.id)) return found;
  throw new PlatformError(
    'FORBIDDEN',
    `You are not a member of the workspace "${workspace}", or your key has no access to it.`,
  );
}

/**
 * Exchanges a token for its key and workspace. Throws UNAUTHORIZED for a token that is wrong, used or expired, and for
 * a wrong verifier, which also consumes the token.
 */
export async function exchange(
  deps: CliDeps & Pick<Deps, 'config'>,
  { token, verifier }: { readonly token: string; readonly verifier: string | undefined },
  by: RequestOrigin,
) {
  const content = await consumeToken(deps, 'CLITOKEN', token);
  if (content === undefined) {
    throw new PlatformError('UNAUTHORIZED', 'The code is wrong, already used or expired: sign in again.');
  }
  const challenge = content.code_challenge as string | undefined;
  if (challenge !== undefined && hash('sha256', verifier ?? '', 'base64url') !== challenge) {
    throw new PlatformError('UNAUTHORIZED', 'The code belongs to another command line: sign in again.');
  }
  // The user may have revoked it in the meantime.
  const own = await findKey(deps, content.key_hash as string);
  checkUsable(deps, own);
  const personalWorkspace = await findPersonalWorkspace(deps, own.userId);
  const workspaceId = content.workspace_id as string | undefined;
  const workspace = workspaceId === undefined ? personalWorkspace : await findWorkspace(deps, workspaceId);
  const limits: KeyLimits = { ...own.limits, workspaceId };
  const owner = { userId: own.userId, personalWorkspace };
  const { key, record, operations } = newApiKey(deps, owner, content.name as string, { ...limits, isOfSignIn: true });
  const { id: keyId, name, userId } = record;
  const subject = { workspaceId: workspace!.id, operation: 'cliExchange', by: { userId, keyId } };
  const entry = entryOperation(deps, subject, { ...by, params: { name } });
  await deps.main.transact([...operations, entry]);
  return { key, record, workspace: workspace! };
}
