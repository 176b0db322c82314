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
 * A command line asks for a key, a person agrees on a page, and the command line gets it with a token that works once
 * (`docs/interface/sign-in.md#command-lines`). The key is made last, so that none lies anywhere.
 */
type CliDeps = Pick<Deps, 'main' | 'counters' | 'clock' | 'ids'>;

const REQUEST_LIFE_MS = 10 * 60_000;
/** Programs fetch the key at once. */
const TOKEN_LIFE_MS = 60_000;
/** People have to copy it. */
const SHOWN_TOKEN_LIFE_MS = 10 * 60_000;

/** What a command line asks for. All of it is what the sender says, but address and time. */
export interface CliRequest {
  /** Where on its machine the command line waits. @default - the person copies the token */
  readonly redirectPort?: number;
  /** SHA-256 of its verifier, in base64url (RFC 7636, section 4.2, S256). @default - none is asked for */
  readonly codeChallenge?: string;
  /** The program and its machine. */
  readonly clientName?: string;
  /** Slug or id of the only workspace that the key is to be good for. @default - what the person's own key is good for */
  readonly workspace?: string;
  /** The sender's, if the host knows it. */
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

/** The request that a state names; `undefined` once it was answered or is too old. */
export async function findRequest(deps: Pick<Deps, 'counters'>, state: string): Promise<CliRequest | undefined> {
  return (await readToken(deps, 'CLIREQUEST', state))?.request as CliRequest | undefined;
}

export async function refuseRequest(deps: Pick<Deps, 'counters'>, state: string): Promise<void> {
  await consumeToken(deps, 'CLIREQUEST', state);
}

/**
 * Agrees to a request as the user of `key`, and returns the token for the new key, which may do no more than `key`. Throws FORBIDDEN
 * if the user is not in the workspace that was asked for, and NOT_FOUND if the request was answered meanwhile.
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
  new PlatformError('NOT_FOUND', 'This sign-in was answered already, or is too old.', {
    hint: 'Say `platform login` once more.',
  });

/** The only workspace that the new key is to be good for. */
async function workspaceFor(deps: CliDeps, { workspace }: CliRequest, key: ApiKey): Promise<Workspace | undefined> {
  const own = key.limits?.workspaceId;
  if (workspace === undefined) return own === undefined ? undefined : findWorkspace(deps, own);
  const memberships = await listMemberships(deps, key.userId);
  const found = memberships.find(({ workspace: { id, slug } }) => id === workspace || slug === workspace)?.workspace;
  if (found !== undefined && (own === undefined || own === found.id)) return found;
  throw new PlatformError(
    'FORBIDDEN',
    `You are not a member of a workspace "${workspace}", or your key is not good for it.`,
  );
}

/**
 * The key that a token stands for, with the workspace it acts in. Throws UNAUTHORIZED for a token that is wrong, used or too old, and for a
 * wrong verifier, which uses the token up.
 */
export async function exchange(
  deps: CliDeps & Pick<Deps, 'config'>,
  { token, verifier }: { readonly token: string; readonly verifier: string | undefined },
  by: RequestOrigin,
) {
  const content = await consumeToken(deps, 'CLITOKEN', token);
  if (content === undefined) {
    throw new PlatformError('UNAUTHORIZED', 'The code is wrong, was used before, or is too old: sign in again.');
  }
  const challenge = content.code_challenge as string | undefined;
  if (challenge !== undefined && hash('sha256', verifier ?? '', 'base64url') !== challenge) {
    throw new PlatformError('UNAUTHORIZED', 'The code belongs to another command line: sign in again.');
  }
  // Its user may have revoked it meanwhile.
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
