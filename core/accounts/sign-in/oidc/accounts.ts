import { hash } from 'node:crypto';
import { PlatformError } from '#core/base/errors.ts';
import { asPrintableLine } from '#core/http/printable-line.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import type { SignInIdentity } from '#core/ports/sign-in-provider.ts';
import { absent, equals } from '#core/ports/table.ts';
import { entryOperation, type RequestOrigin } from '../../audit/log.ts';
import { type ApiKey, findKey, listKeys, newApiKey } from '../../keys/store.ts';
import { emailAddress } from '../../workspaces/email-address.ts';
import { listInviteHashesOf, listUsersOf } from '../../workspaces/emails.ts';
import { findInvite, joinAsNewUser } from '../../workspaces/invites.ts';
import { findPersonalWorkspace, findUser, type User } from '../../workspaces/store.ts';

/**
 * Users who sign in with the provider. Main table: `OIDC#<hash of issuer and subject> / META` links an identity to a
 * user, with the key of the user's sessions. That key is never shown. Revoking it ends the sessions; the next sign-in
 * creates another.
 */
type AccountDeps = Pick<Deps, 'main' | 'clock' | 'ids' | 'config'>;

const MAX_NAME = 100;

const identityKey = ({ issuer, subject }: SignInIdentity) => ({
  pk: `OIDC#${hash('sha256', `${issuer}\n${subject}`)}`,
  sk: 'META',
});

export interface Account {
  readonly user: User;
  /** Key of the session. */
  readonly key: ApiKey;
  /** Present if an existing user was linked by this sign-in: the keys of the user that others may hold. */
  readonly earlierKeys?: readonly ApiKey[];
}

/**
 * Returns the account of an identity. The first sign-in links the oldest user with the verified e-mail address, or
 * creates a new one by an invitation of that address, which it consumes.
 *
 * Throws FORBIDDEN for an address that is not verified, not of an allowed domain, or without an invitation.
 */
export async function accountOf(deps: AccountDeps, identity: SignInIdentity, by: RequestOrigin): Promise<Account> {
  const email = allowedEmail(deps, identity);
  return retryOnConflict(deps.clock, 'the account of a sign-in', async () => {
    const linked = await deps.main.get(identityKey(identity));
    if (linked) return linkedAccount(deps, identity, linked.user_id as string, linked.key_hash as string);
    const [user] = await listUsersOf(deps, email);
    if (user) return link(deps, identity, user);
    // If two sign-ins race, one uses the invitation; the other finds the user in its next attempt.
    await join(deps, email, identity.name, by);
    return undefined;
  });
}

function allowedEmail({ config }: AccountDeps, { issuer, verifiedEmail }: SignInIdentity): string {
  const host = new URL(issuer).host;
  if (verifiedEmail === undefined) {
    throw new PlatformError('FORBIDDEN', `${host} did not confirm that your e-mail address is verified.`, {
      hint: 'Verify it there. Its administrator may have to share it with the platform (docs/sign-in.md).',
    });
  }
  // The address is displayed, and is part of a table key.
  if (!emailAddress.safeParse(verifiedEmail).success) {
    throw new PlatformError('FORBIDDEN', `The e-mail address from ${host} is not valid.`, {
      hint: 'Tell its administrator.',
    });
  }
  const domain = verifiedEmail.slice(verifiedEmail.lastIndexOf('@') + 1).toLowerCase();
  const { oidcDomains } = config;
  if (oidcDomains.length > 0 && !oidcDomains.includes(domain)) {
    throw new PlatformError('FORBIDDEN', `Addresses at ${domain} may not sign in to this platform.`, {
      hint: 'Sign in with another account, or ask the operator (PLATFORM_OIDC_DOMAINS).',
    });
  }
  return verifiedEmail;
}

async function linkedAccount(
  deps: AccountDeps,
  identity: SignInIdentity,
  userId: string,
  keyHash: string,
): Promise<Account | undefined> {
  const [user, key] = await Promise.all([findUser(deps, userId), findKey(deps, keyHash)]);
  if (user === undefined) throw new Error(`the user ${userId} of a sign-in is not there`);
  if (key) return { user, key };
  const { record, operations } = await newSessionKey(deps, identity, user);
  const change = { set: { key_hash: record.hash } };
  const written = await deps.main.transact([
    { op: 'update', key: identityKey(identity), changes: change, condition: equals('key_hash', keyHash) },
    ...operations,
  ]);
  return written.ok ? { user, key: record } : undefined;
}

async function link(deps: AccountDeps, identity: SignInIdentity, user: User): Promise<Account | undefined> {
  const earlierKeys = await listKeys(deps, user.id);
  const { record, operations } = await newSessionKey(deps, identity, user);
  const { issuer, subject } = identity;
  const item = {
    ...identityKey(identity),
    ...{ issuer, subject, user_id: user.id, key_hash: record.hash },
    created_at: isoTime(deps.clock.now()),
  };
  const written = await deps.main.transact([{ op: 'put', item, condition: absent() }, ...operations]);
  return written.ok ? { user, key: record, ...(earlierKeys.length > 0 && { earlierKeys }) } : undefined;
}

async function newSessionKey(deps: AccountDeps, { issuer }: SignInIdentity, user: User) {
  const owner = { userId: user.id, personalWorkspace: await findPersonalWorkspace(deps, user.id) };
  return newApiKey(deps, owner, `sign-in by ${new URL(issuer).host}`.slice(0, MAX_NAME));
}

async function join(deps: AccountDeps, email: string, name: string | undefined, by: RequestOrigin): Promise<void> {
  for (const hash of await listInviteHashesOf(deps, email)) {
    const invite = await findInvite(deps, hash);
    if (invite === undefined) continue;
    const displayName = (name && asPrintableLine(name, MAX_NAME)) || undefined;
    await joinAsNewUser(
      deps,
      () => findInvite(deps, hash),
      { name: displayName },
      ({ userId, invite: { workspace } }) => {
        const subject = { workspaceId: workspace.id, operation: 'joinByInvite', by: { userId } };
        return [entryOperation(deps, subject, { ...by, params: {} })];
      },
    );
    return;
  }
  throw new PlatformError('FORBIDDEN', `${email} has no invitation to this platform.`, {
    hint: 'Ask an owner of a workspace to invite this address, then sign in again.',
  });
}
