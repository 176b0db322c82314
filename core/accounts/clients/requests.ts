import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { newToken } from '#core/ports/ids.ts';
import { absent } from '#core/ports/table.ts';
import { hashKey } from '../keys/key-format.ts';
import { consumeToken, newSecret, readToken } from '../sign-in/one-time-tokens.ts';
import { listMemberships, type Membership, membershipOf } from '../workspaces/store.ts';
import { CLIENT_SCOPES, type ClientScope } from './connected-client.ts';

/**
 * What a client asks for, until a user answers. Its name is in the address of the page, and works once
 * (`docs/interface/client-sign-in.md#consent`).
 */
export interface ClientRequest {
  readonly clientId: string;
  readonly clientName: string;
  readonly redirectUri: string;
  readonly state?: string;
  /** SHA-256 of the verifier, in base64url (RFC 7636, S256). */
  readonly challenge: string;
  /** Path of the resource. */
  readonly resource: string;
  readonly scope: ClientScope;
  /** Epoch milliseconds. */
  readonly expires: number;
}

type RequestDeps = Pick<Deps, 'main' | 'counters' | 'clock' | 'ids'>;

const REQUEST_LIFE_MS = 10 * 60_000;
export const CODE_LIFE_MS = 60_000;
/** How long a used code is remembered, so that its replay ends what was issued for it. */
const CODE_MEMORY_MS = 24 * 3_600_000;

/** Stores a request, and returns the name of its page. */
export async function keepRequest(deps: RequestDeps, asked: Omit<ClientRequest, 'expires'>): Promise<string> {
  const request = { ...asked, expires: deps.clock.now() + REQUEST_LIFE_MS };
  const content = JSON.parse(JSON.stringify({ request }));
  const { secret, operation } = newSecret(deps, 'CLIENTREQUEST', content, REQUEST_LIFE_MS);
  await deps.counters.transact([operation]);
  return secret;
}

const gone = (): PlatformError =>
  new PlatformError('NOT_FOUND', 'This request of a client was already answered or has expired.', {
    hint: 'Begin again in the client.',
  });

/** Throws NOT_FOUND. */
export async function findRequest(deps: Pick<Deps, 'counters'>, name: string): Promise<ClientRequest> {
  const content = await readToken(deps, 'CLIENTREQUEST', name);
  if (content === undefined) throw gone();
  return content.request as unknown as ClientRequest;
}

/** Takes a request, so that only one answer to it counts. Throws NOT_FOUND. */
export async function takeRequest(deps: Pick<Deps, 'counters'>, name: string): Promise<void> {
  if ((await consumeToken(deps, 'CLIENTREQUEST', name)) === undefined) throw gone();
}

/** Returns the scopes that a caller may give to a client: those of its own key, up to the one that is asked for. */
export function scopesFor({ limits }: Caller, asked: ClientScope): ClientScope[] {
  const upTo = (scope: string) => (CLIENT_SCOPES as readonly string[]).indexOf(scope);
  const own = limits?.scope === 'approve' ? 0 : limits?.scope === 'publish' ? -1 : upTo(limits?.scope ?? 'manage');
  return CLIENT_SCOPES.slice(0, Math.min(own, upTo(asked)) + 1);
}

/** Returns the workspaces that a caller may choose from. */
export async function workspacesFor(deps: Pick<Deps, 'main'>, { userId, limits }: Caller): Promise<Membership[]> {
  const all = await listMemberships(deps, userId);
  return all.filter(
    ({ workspace }) =>
      workspace.move?.state !== 'moved' && (limits?.workspaceId === undefined || limits.workspaceId === workspace.id),
  );
}

/** A code, which stands for a consent. Main table, with expiry: `CLIENTCODE#<hash> / META`. */
export const codeKey = (code: string) => ({ pk: `CLIENTCODE#${hashKey(code)}`, sk: 'META' });

/**
 * Creates the code of a consent. Throws FORBIDDEN if the caller may not give this scope, or is not a member.
 *
 * @param take Takes the request, once the consent is sound.
 */
export async function createCode(
  deps: RequestDeps,
  request: ClientRequest,
  caller: Caller,
  given: { readonly workspaceId: string; readonly scope: ClientScope },
  take: () => Promise<void>,
): Promise<string> {
  if (!scopesFor(caller, request.scope).includes(given.scope)) {
    throw new PlatformError(
      'FORBIDDEN',
      'body.scope: is more than the client asked for, or than your own API key has.',
    );
  }
  if ((await membershipOf(deps, caller, given.workspaceId)) === undefined) {
    throw new PlatformError('FORBIDDEN', `You are not a member of a workspace with the id "${given.workspaceId}".`);
  }
  await take();
  const code = newToken(deps.ids);
  const now = deps.clock.now();
  const item = {
    ...codeKey(code),
    user_id: caller.userId,
    connection_id: deps.ids.uuid(),
    client_id: request.clientId,
    client_name: request.clientName,
    redirect_uri: request.redirectUri,
    challenge: request.challenge,
    resource: request.resource,
    workspace_id: given.workspaceId,
    scope: given.scope,
    expires: now + CODE_LIFE_MS,
    ttl: epochSeconds(now + CODE_MEMORY_MS),
  };
  await deps.main.put(item, absent());
  return code;
}
