import { PlatformError } from '#core/base/errors.ts';
import type { Role, Workspace } from '#core/base/workspace.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { newToken } from '#core/ports/ids.ts';
import { equals, type Item, queryAll, type TransactOperation } from '#core/ports/table.ts';
import { hashKey } from '../keys/key-format.ts';
import { newApiKey } from '../keys/store.ts';
import { inviteEmailItem, userEmailItem } from './emails.ts';
import { addMember } from './members.ts';
import { checkStays } from './moving.ts';
import { slugFrom } from './slug.ts';
import { findWorkspace, newUserOperations } from './store.ts';

/**
 * Invitations. Main table: `WS#<workspace id>#INVITES / <e-mail address>` is the pending invitation of an address, and
 * `INVITE#<hash of its token> / META` refers to it. The token is only in the link and is not stored. It works once, for
 * anyone who has the link. A new invitation of an address replaces the previous one.
 */
export interface Invite {
  readonly id: string;
  readonly email: string;
  readonly role: Role;
  readonly createdAt: string;
  readonly expiresAt: string;
}

/** A pending invitation, found by its token. */
export interface OpenInvite extends Invite {
  readonly workspace: Workspace;
  readonly hash: string;
}

type InviteDeps = Pick<Deps, 'main' | 'clock' | 'ids'>;

const VALID_SECONDS = 7 * 24 * 3600;
/** Bounds the e-mail that the owner of a workspace can send. */
const MAX_PENDING = 100;
const MAX_SLUG_ATTEMPTS = 5;

const partition = (workspaceId: string): string => `WS#${workspaceId}#INVITES`;
const inviteKey = (workspaceId: string, email: string) => ({ pk: partition(workspaceId), sk: email.toLowerCase() });
const tokenKey = (hash: string) => ({ pk: `INVITE#${hash}`, sk: 'META' });

/** Lists the pending invitations of a workspace. */
export async function listInvites({ main }: InviteDeps, workspaceId: string): Promise<Invite[]> {
  return (await Array.fromAsync(queryAll(main, { pk: partition(workspaceId) }))).map(fromItem);
}

/** Creates an invitation and returns it with its token. Throws CONFLICT if too many are pending. */
export async function createInvite(
  deps: InviteDeps,
  workspaceId: string,
  { email, role }: { readonly email: string; readonly role: Role },
): Promise<{ invite: Invite; token: string }> {
  const pending = await listInvites(deps, workspaceId);
  if (pending.length >= MAX_PENDING) {
    throw new PlatformError('CONFLICT', `${MAX_PENDING} invitations are pending: revoke some first.`);
  }
  const token = newToken(deps.ids);
  const hash = hashKey(token);
  const now = deps.clock.now();
  const ttl = epochSeconds(now) + VALID_SECONDS;
  const key = inviteKey(workspaceId, email);
  const item: Item = { ...key, id: deps.ids.uuid(), email, role, created_at: isoTime(now), hash, ttl };
  await deps.main.transact([
    { op: 'put', item },
    { op: 'put', item: { ...tokenKey(hash), workspace_id: workspaceId, email, ttl } },
    { op: 'put', item: inviteEmailItem(email, workspaceId, hash, ttl) },
  ]);
  return { invite: fromItem(item), token };
}

/** Revokes a pending invitation. Returns false if it does not exist. */
export async function revokeInvite(deps: InviteDeps, workspaceId: string, id: string): Promise<boolean> {
  const invite = (await listInvites(deps, workspaceId)).find((each) => each.id === id);
  if (invite === undefined) return false;
  return (await deps.main.delete(inviteKey(workspaceId, invite.email), equals('id', id))).ok;
}

/**
 * Finds the invitation of a token. Throws NOT_FOUND if it is unknown, used, revoked, replaced or expired, and like
 * {@link checkStays} for a workspace that moves to another cell.
 */
export async function openInvite(deps: InviteDeps, token: string): Promise<OpenInvite> {
  const invite = await readInvite(deps, hashKey(token));
  if (invite) {
    checkStays(invite.workspace, 'change');
    return invite;
  }
  throw new PlatformError(
    'NOT_FOUND',
    'This invitation does not exist, was used or revoked, or is older than seven days.',
  );
}

/**
 * Finds the pending invitation with this hash of its token; `undefined` if it does not exist, is no longer pending, or its
 * workspace moves to another cell.
 */
export async function findInvite(deps: Pick<Deps, 'main'>, hash: string): Promise<OpenInvite | undefined> {
  const invite = await readInvite(deps, hash);
  return invite?.workspace.move === undefined ? invite : undefined;
}

async function readInvite(deps: Pick<Deps, 'main'>, hash: string): Promise<OpenInvite | undefined> {
  const found = await deps.main.get(tokenKey(hash));
  const workspaceId = found?.workspace_id as string | undefined;
  if (workspaceId !== undefined) {
    const [item, workspace] = await Promise.all([
      deps.main.get(inviteKey(workspaceId, found!.email as string)),
      findWorkspace(deps, workspaceId),
    ]);
    if (item?.hash === hash && workspace) return { ...fromItem(item), workspace, hash };
  }
  return undefined;
}

/** Makes a user a member. Throws like {@link openInvite}, and CONFLICT if the user is already a member. */
export async function acceptInvite(deps: InviteDeps, token: string, userId: string): Promise<OpenInvite> {
  const invite = await openInvite(deps, token);
  const { workspace, role } = invite;
  if (await addMember(deps, { workspace, userId, role }, useOperations(invite))) return invite;
  // Another user has just used it: this throws NOT_FOUND.
  return openInvite(deps, token);
}

/** Returns the writes that mark an invitation as used. */
const useOperations = ({ workspace, email, hash }: OpenInvite): TransactOperation[] => [
  { op: 'delete', key: inviteKey(workspace.id, email), condition: equals('hash', hash) },
  { op: 'delete', key: tokenKey(hash) },
];

/**
 * Creates the user `userId` with a personal workspace and an API key, and makes the user a member of the inviting workspace. Throws
 * like {@link openInvite}, and CONFLICT if it finds no free slug.
 */
export async function joinByInvite(
  deps: InviteDeps,
  token: string,
  { userId, name }: { readonly userId: string; readonly name: string | undefined },
): Promise<{
  invite: OpenInvite;
  user: { id: string; email: string; display_name: string };
  personalWorkspace: Workspace;
  key: string;
}> {
  let key = '';
  const joined = await joinAsNewUser(
    deps,
    () => openInvite(deps, token),
    { userId, name },
    (owner) => {
      const made = newApiKey(deps, owner, 'first key');
      key = made.key;
      return made.operations;
    },
  );
  return { ...joined!, key };
}

/**
 * Creates a user, with the id `userId` if given, for the invitation that `find` returns, with a personal workspace and
 * the writes of `alongside`, and makes the user a member of the inviting workspace. Returns `undefined` once `find`
 * does. Throws errors of `find`, and CONFLICT if it finds no free slug.
 */
export async function joinAsNewUser(
  deps: InviteDeps,
  find: () => Promise<OpenInvite | undefined>,
  { userId = deps.ids.uuid(), name }: { readonly userId?: string; readonly name: string | undefined },
  alongside: (owner: {
    userId: string;
    personalWorkspace: Workspace;
    invite: OpenInvite;
  }) => readonly TransactOperation[] = () => [],
) {
  for (let attempt = 0; attempt < MAX_SLUG_ATTEMPTS; attempt++) {
    const invite = await find();
    if (invite === undefined) return undefined;
    const { email, workspace, role } = invite;
    const id = deps.ids.uuid();
    const base = slugFrom(email.split('@')[0]!) ?? 'user';
    const slug = attempt === 0 ? base : `${base}-${id.slice(0, 6)}`;
    const displayName = name ?? email.split('@')[0]!;
    const personalWorkspace: Workspace = {
      id,
      slug,
      name: displayName,
      type: 'personal',
      createdAt: isoTime(deps.clock.now()),
    };
    // Written first, because the transaction has no space left: an entry without its user is ignored.
    await deps.main.put(userEmailItem({ id: userId, email }));
    const joined = await addMember(deps, { workspace, userId, role }, [
      ...useOperations(invite),
      ...newUserOperations(userId, { email, displayName }, personalWorkspace),
      ...alongside({ userId, personalWorkspace, invite }),
    ]);
    if (joined) return { invite, user: { id: userId, email, display_name: displayName }, personalWorkspace };
  }
  throw new PlatformError('CONFLICT', 'No slug is free for your personal workspace: try again.');
}

const fromItem = (item: Item): Invite => ({
  id: item.id as string,
  email: item.email as string,
  role: item.role as Role,
  createdAt: item.created_at as string,
  expiresAt: isoTime((item.ttl as number) * 1000),
});
