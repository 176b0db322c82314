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
 * People who sign in with the provider. Main table: `OIDC#<hash of issuer and subject> / META` joins a person there to a user here,
 * with the key of the person's sessions. That key is never shown. To revoke it ends the sessions; the next sign-in makes another.
 */
type AccountDeps = Pick<Deps, 'main' | 'clock' | 'ids' | 'config'>;

const MAX_NAME = 100;

const identityKey = ({ issuer, subject }: SignInIdentity) => ({
  pk: `OIDC#${hash('sha256', `${issuer}\n${subject}`)}`,
  sk: 'META',
});

export interface Account {
  readonly user: User;
  /** For the session. */
  readonly key: ApiKey;
  /** Of a user who was there before and is joined to the person now: the keys that may be in anybody's hands. */
  readonly earlierKeys?: readonly ApiKey[];
}

/**
 * The account of a person. At the first sign-in that is the oldest user with the person's verified e-mail address, or else a new one, by
 * an invitation of that address, which is used up.
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
    // Of two sign-ins at once, one uses the invitation; the other finds the user in its next round.
    await join(deps, email, identity.name, by);
    return undefined;
  });
}

function allowedEmail({ config }: AccountDeps, { issuer, verifiedEmail }: SignInIdentity): string {
  const host = new URL(issuer).host;
  if (verifiedEmail === undefined) {
    throw new PlatformError('FORBIDDEN', `${host} did not say that your e-mail address is verified.`, {
      hint: 'Verify it there. Its administrator may have to let the platform see it (docs/sign-in.md).',
    });
  }
  // It is shown, and part of a key of the table.
  if (!emailAddress.safeParse(verifiedEmail).success) {
    throw new PlatformError('FORBIDDEN', `What ${host} gave as your e-mail address is none.`, {
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
  throw new PlatformError('FORBIDDEN', `Nobody has invited ${email} to this platform.`, {
    hint: 'Ask an owner of a workspace to invite this address, then sign in again.',
  });
}
